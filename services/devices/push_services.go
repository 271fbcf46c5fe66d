package devices

import (
	"maps"
	"slices"
	"time"

	"tidings/services/outbound"
)

// A user who registers a device chooses the host that the server calls. Hosts that never accepted a message get a small share of
// the requests, so that hosts that hang cannot take the place of real push services.
const (
	maxRequestsToUnprovenServices = 16     // requests at once to push services that have not accepted a message yet: anybody can name one
	maxRequestsPerUnprovenService = 2      // requests at once to one push service that has not accepted a message yet
	maxPushServices               = 10_000 // push services that are remembered
)

// pushServices bound the number of requests to each push service at once. A push service that has accepted no message yet is
// unproven. pushServices are in memory alone: a restart loses them, which costs some requests. The deviceSender's mu guards them.
type pushServices struct {
	maxPerService              int                     // requests at once to a push service that has accepted a message
	byService                  map[string]*pushService // by the host of the push service
	requestsToUnprovenServices int                     // requests under way to push services that have not accepted one yet
}

// pushService is what this node knows of one push service. It is down after outbound.FailuresUntilDown failures in a row.
type pushService struct {
	requestsUnderway    int       // requests that have not ended
	consecutiveFailures int       // in a row
	retryAt             time.Time // while it is down: when the next request may begin
	hasAccepted         bool      // it has accepted a message
}

// newPushServices makes pushServices that has no service yet.
func newPushServices(most int) *pushServices {
	return &pushServices{maxPerService: most, byService: map[string]*pushService{}}
}

// findOrAdd finds or adds a push service. If there are too many, it forgets all but those with requests under way, whose count must
// be right. A proven service is then unproven again until its next success.
func (l *pushServices) findOrAdd(service string) *pushService {
	one := l.byService[service]
	if one == nil {
		if len(l.byService) >= maxPushServices {
			maps.DeleteFunc(l.byService, func(_ string, old *pushService) bool { return old.requestsUnderway == 0 })
		}
		one = &pushService{}
		l.byService[service] = one
	}
	return one
}

// down reports whether a push service fails as a whole.
func (o *pushService) down() bool { return o.consecutiveFailures >= outbound.FailuresUntilDown }

// canTakeRequest reports whether a push service can take a further request: one at a time while it is down, after its pause.
func (l *pushServices) canTakeRequest(o *pushService, now time.Time) bool {
	switch {
	case o.down():
		return o.requestsUnderway == 0 && !now.Before(o.retryAt)
	case o.hasAccepted:
		return o.requestsUnderway < l.maxPerService
	}
	return o.requestsUnderway < min(maxRequestsPerUnprovenService, l.maxPerService) && l.requestsToUnprovenServices < maxRequestsToUnprovenServices
}

// serviceFilter lists push services to leave out. While no unproven service can take a request, onlyListed is true, and it lists
// the services to choose from instead. A service that is not in byService yet is unproven.
func (l *pushServices) serviceFilter(now time.Time) (onlyListed bool, services []string) {
	onlyListed = l.requestsToUnprovenServices >= maxRequestsToUnprovenServices
	services = []string{}
	for name, one := range l.byService {
		if l.canTakeRequest(one, now) == onlyListed {
			services = append(services, name)
		}
	}
	slices.Sort(services)
	return onlyListed, services
}

// beginRequest takes a place for a request, if there is one. Exactly one call of endRequest, endAnsweredRequest or endFailedRequest
// frees each place.
func (l *pushServices) beginRequest(service string, now time.Time) bool {
	one := l.findOrAdd(service)
	if !l.canTakeRequest(one, now) {
		return false
	}
	one.requestsUnderway++
	if !one.hasAccepted {
		l.requestsToUnprovenServices++
	}
	return true
}

// endRequest frees the place of a request. Called by itself, it is for a request that this node broke off, which says nothing about
// the push service.
func (l *pushServices) endRequest(service string) *pushService {
	one := l.findOrAdd(service)
	one.requestsUnderway--
	if !one.hasAccepted {
		l.requestsToUnprovenServices--
	}
	return one
}

// endAnsweredRequest ends a request to a push service that works; accepted says that the service took the message. A service that
// only ever answers that it does not know a device stays unproven.
func (l *pushServices) endAnsweredRequest(service string, accepted bool) {
	one := l.endRequest(service)
	one.consecutiveFailures, one.retryAt = 0, time.Time{}
	if accepted && !one.hasAccepted {
		one.hasAccepted = true
		l.requestsToUnprovenServices -= one.requestsUnderway // these requests no longer go to an unproven service
	}
}

// endFailedRequest ends a request that failed. If one device fails again and again, only its first failure counts for the push
// service, unless the service is down. Requests that began before the service was known to be down do not prolong the pause, unless
// the service asks for a longer wait.
func (l *pushServices) endFailedRequest(service string, first bool, now time.Time, after time.Duration) {
	one := l.endRequest(service)
	// A request that began before the pause: only the wait that the service asks for counts.
	if one.down() && now.Before(one.retryAt) {
		if until := now.Add(after); one.retryAt.Before(until) {
			one.retryAt = until
		}
		return
	}
	if first || one.down() {
		one.consecutiveFailures++
	}
	if one.down() {
		pause := outbound.RetryPause(one.consecutiveFailures-outbound.FailuresUntilDown, outbound.LongestDownPause)
		one.retryAt = now.Add(max(pause, after))
	}
}
