package devices

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"tidings/services/outbound"
)

// A user who registers a device chooses the host that the server calls, and each request may be a socket: the requests to all push
// services at once are bounded. Hosts that hang must not take the place of real push services, so they get shares. One share is for the
// hosts that have never accepted a message. Another one is for all but the main push services, which have accepted the most messages:
// the makers of browsers run a handful, and somebody's own host is a main one only if it accepts more messages than theirs do.
const (
	maxRequestsToUnprovenServices = 16     // requests at once to push services that have not accepted a message yet: anybody can name one
	maxRequestsPerUnprovenService = 2      // requests at once to one push service that has not accepted a message yet
	mainServices                  = 8      // how many push services are main ones
	maxRequestsToMinorServices    = 256    // requests at once to all push services but the main ones
	maxPushServices               = 10_000 // push services that are remembered
)

// pushServices bound the number of requests at once: to each push service, and to all. A push service that has accepted no message
// yet is unproven. The main ones have accepted the most messages, and the others are minor. pushServices are in memory alone: a
// restart loses them, which costs some requests. The deviceSender's mu guards them.
type pushServices struct {
	maxPerService              int                     // requests at once to a push service that has accepted a message
	byService                  map[string]*pushService // by the host of the push service
	main                       []*pushService          // mainServices at most
	requestsToUnprovenServices int                     // requests under way to push services that have not accepted one yet
	requestsToMinorServices    int                     // requests under way to all but the main ones
}

// pushService is what this node knows of one push service. It is down after outbound.FailuresUntilDown failures in a row.
type pushService struct {
	requestsUnderway    int       // requests that have not ended
	consecutiveFailures int       // in a row
	retryAt             time.Time // while it is down: when the next request may begin
	acceptedMessages    int       // messages that it has accepted
	isMain              bool      // it is in pushServices.main
}

// newPushServices makes pushServices that has no service yet.
func newPushServices(most int) *pushServices {
	return &pushServices{maxPerService: most, byService: map[string]*pushService{}}
}

// findOrAdd finds or adds a push service. If there are too many, it forgets all but the main ones and those with requests under way,
// whose count must be right. A proven service is then unproven again until its next success.
func (l *pushServices) findOrAdd(service string) *pushService {
	one := l.byService[service]
	if one == nil {
		if len(l.byService) >= maxPushServices {
			maps.DeleteFunc(l.byService, func(_ string, old *pushService) bool { return old.requestsUnderway == 0 && !old.isMain })
		}
		one = &pushService{}
		l.byService[service] = one
	}
	return one
}

// down reports whether a push service fails as a whole.
func (o *pushService) down() bool { return o.consecutiveFailures >= outbound.FailuresUntilDown }

// proven reports whether a push service has accepted a message.
func (o *pushService) proven() bool { return o.acceptedMessages > 0 }

// canTakeRequest reports whether a push service can take a further request: one at a time while it is down, after its pause.
func (l *pushServices) canTakeRequest(o *pushService, now time.Time) bool {
	switch {
	case !o.isMain && l.requestsToMinorServices >= maxRequestsToMinorServices:
		return false
	case o.down():
		return o.requestsUnderway == 0 && !now.Before(o.retryAt)
	case o.proven():
		return o.requestsUnderway < l.maxPerService
	}
	return o.requestsUnderway < min(maxRequestsPerUnprovenService, l.maxPerService) && l.requestsToUnprovenServices < maxRequestsToUnprovenServices
}

// serviceFilter lists push services to leave out. While no unproven service can take a request, onlyListed is true, and it lists
// the services to choose from instead. A service that is not in byService yet is unproven.
func (l *pushServices) serviceFilter(now time.Time) (onlyListed bool, services []string) {
	onlyListed = l.requestsToUnprovenServices >= maxRequestsToUnprovenServices || l.requestsToMinorServices >= maxRequestsToMinorServices
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
	l.count(one, 1)
	return true
}

// count counts a request that begins (1) or ends (-1).
func (l *pushServices) count(one *pushService, change int) {
	one.requestsUnderway += change
	if !one.proven() {
		l.requestsToUnprovenServices += change
	}
	if !one.isMain {
		l.requestsToMinorServices += change
	}
}

// endRequest frees the place of a request. Called by itself, it is for a request that this node broke off, which says nothing about
// the push service.
func (l *pushServices) endRequest(service string) *pushService {
	one := l.findOrAdd(service)
	l.count(one, -1)
	return one
}

// endAnsweredRequest ends a request to a push service that works; accepted says that the service took the message. A service that
// only ever answers that it does not know a device stays unproven.
func (l *pushServices) endAnsweredRequest(service string, accepted bool) {
	one := l.endRequest(service)
	one.consecutiveFailures, one.retryAt = 0, time.Time{}
	if !accepted {
		return
	}
	if !one.proven() {
		l.requestsToUnprovenServices -= one.requestsUnderway // these requests no longer go to an unproven service
	}
	one.acceptedMessages++
	l.chooseMain(one)
}

// chooseMain makes a push service that has just accepted a message a main one, if it has accepted more messages than one of these. Its
// requests under way then leave the share of the minor services, and those of the service that it replaces enter it.
func (l *pushServices) chooseMain(one *pushService) {
	if one.isMain {
		return
	}
	if len(l.main) == mainServices {
		least := slices.MinFunc(l.main, func(a, b *pushService) int { return cmp.Compare(a.acceptedMessages, b.acceptedMessages) })
		if one.acceptedMessages <= least.acceptedMessages {
			return
		}
		l.main = slices.DeleteFunc(l.main, func(old *pushService) bool { return old == least })
		least.isMain = false
		l.requestsToMinorServices += least.requestsUnderway
	}
	l.main, one.isMain = append(l.main, one), true
	l.requestsToMinorServices -= one.requestsUnderway
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
