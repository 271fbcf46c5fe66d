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
	maxStrangers    = 16     // requests at once to push services that have not accepted a message yet: anybody can name one
	maxPerStranger  = 2      // requests at once to one push service that has not accepted a message yet
	maxPushServices = 10_000 // push services that are remembered
)

// pushServices bound the number of requests to each push service at once. A push service that has accepted no message yet is a stranger.
// pushServices are in memory alone: a restart loses them, which costs some requests. The courier's mu guards them.
type pushServices struct {
	most      int                     // requests at once to a push service that has accepted a message
	byService map[string]*pushService // by the host of the push service
	strangers int                     // requests under way to push services that have not accepted one yet
}

// pushService is what this node knows of one push service. It is down after outbound.FailuresUntilDown failures in a row.
type pushService struct {
	underway int       // requests that have not ended
	failures int       // in a row
	retryAt  time.Time // while it is down: when the next request may begin
	known    bool      // it has accepted a message
}

// newPushServices makes pushServices that has no service yet.
func newPushServices(most int) *pushServices {
	return &pushServices{most: most, byService: map[string]*pushService{}}
}

// get finds or adds a push service. If there are too many, it forgets all but those with requests under way,
// whose count must be right. A known service is then a stranger again until its next success.
func (l *pushServices) get(service string) *pushService {
	one := l.byService[service]
	if one == nil {
		if len(l.byService) >= maxPushServices {
			maps.DeleteFunc(l.byService, func(_ string, old *pushService) bool { return old.underway == 0 })
		}
		one = &pushService{}
		l.byService[service] = one
	}
	return one
}

// down reports whether a push service fails as a whole.
func (o *pushService) down() bool { return o.failures >= outbound.FailuresUntilDown }

// takes reports whether a push service can take a further request: one at a time while it is down, after its pause.
func (l *pushServices) takes(o *pushService, now time.Time) bool {
	switch {
	case o.down():
		return o.underway == 0 && !now.Before(o.retryAt)
	case o.known:
		return o.underway < l.most
	}
	return o.underway < min(maxPerStranger, l.most) && l.strangers < maxStrangers
}

// filter lists push services to leave out. While no stranger can take a request, onlyListed is true, and it lists the services to choose
// from instead. A service that is not in byService yet is a stranger.
func (l *pushServices) filter(now time.Time) (onlyListed bool, services []string) {
	onlyListed = l.strangers >= maxStrangers
	services = []string{}
	for name, one := range l.byService {
		if l.takes(one, now) == onlyListed {
			services = append(services, name)
		}
	}
	slices.Sort(services)
	return onlyListed, services
}

// begin takes a place for a request, if there is one. Exactly one call of end, endAnswered or endFailed frees each place.
func (l *pushServices) begin(service string, now time.Time) bool {
	one := l.get(service)
	if !l.takes(one, now) {
		return false
	}
	one.underway++
	if !one.known {
		l.strangers++
	}
	return true
}

// end frees the place of a request. Called by itself, it is for a request that this node broke off, which says nothing about the
// push service.
func (l *pushServices) end(service string) *pushService {
	one := l.get(service)
	one.underway--
	if !one.known {
		l.strangers--
	}
	return one
}

// endAnswered ends a request to a push service that works; accepted says that the service took the message. A service that only ever
// answers that it does not know a device stays a stranger.
func (l *pushServices) endAnswered(service string, accepted bool) {
	one := l.end(service)
	one.failures, one.retryAt = 0, time.Time{}
	if accepted && !one.known {
		one.known = true
		l.strangers -= one.underway // these requests no longer go to a stranger
	}
}

// endFailed ends a request that failed. If one device fails again and again, only its first failure counts for the push service,
// unless the service is down. Requests that began before the service was known to be down do not prolong the pause, unless the service
// asks for a longer wait.
func (l *pushServices) endFailed(service string, first bool, now time.Time, after time.Duration) {
	one := l.end(service)
	// A request that began before the pause: only the wait that the service asks for counts.
	if one.down() && now.Before(one.retryAt) {
		if until := now.Add(after); one.retryAt.Before(until) {
			one.retryAt = until
		}
		return
	}
	if first || one.down() {
		one.failures++
	}
	if one.down() {
		pause := outbound.Pause(one.failures-outbound.FailuresUntilDown, outbound.LongestDown)
		one.retryAt = now.Add(max(pause, after))
	}
}
