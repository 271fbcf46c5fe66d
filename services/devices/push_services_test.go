package devices

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/services/outbound"
)

// A push service that has accepted nothing yet gets few requests at once, and all such services together get no more than their
// share. Once a service has accepted a message it gets as many requests as are allowed.
func TestUnprovenServicesGetFewRequestsAtOnce(t *testing.T) {
	const most = 5
	l, now := newPushServices(most), time.Now()
	begin := func(service string, tries int) (begun int) {
		for range tries {
			if l.beginRequest(service, now) {
				begun++
			}
		}
		return begun
	}
	if begun := begin("one", most); begun != maxRequestsPerUnprovenService {
		t.Errorf("%d requests to an unproven service were begun, want %d", begun, maxRequestsPerUnprovenService)
	}
	all := maxRequestsPerUnprovenService
	for i := range maxRequestsToUnprovenServices {
		all += begin(fmt.Sprint("other", i), most)
	}
	if all != maxRequestsToUnprovenServices {
		t.Errorf("%d requests to unproven services were begun, want %d", all, maxRequestsToUnprovenServices)
	}
	l.endAnsweredRequest("one", true)
	if begun := begin("one", 2*most); begun != most-1 { // another one is under way
		t.Errorf("%d further requests to one that accepts were begun, want %d", begun, most-1)
	}
	if begun := begin("late", most); begun != maxRequestsPerUnprovenService {
		t.Errorf("%d requests to a further unproven service were begun, want %d: both slots of the proven one are free", begun, maxRequestsPerUnprovenService)
	}
	if onlyListed, open := l.serviceFilter(now); !onlyListed || len(open) > 0 {
		t.Errorf("open are %v, among them alone: %t", open, onlyListed)
	}
}

// However many hosts users name, the requests to all of them together are bounded. Hosts that accept one message and then hang do not
// take the place of a push service that has accepted more.
func TestAllPushServicesTogetherAreBounded(t *testing.T) {
	const most, hosts = 5, 2 * maxRequestsToMinorServices
	l, now := newPushServices(most), time.Now()
	accept := func(service string) {
		if !l.beginRequest(service, now) {
			t.Fatalf("no request to %s was begun", service)
		}
		l.endAnsweredRequest(service, true)
	}
	for i := range hosts {
		accept(fmt.Sprint("host", i))
	}
	for range 2 {
		accept("real")
	}
	var hanging []string
	for i := range hosts {
		for name := fmt.Sprint("host", i); l.beginRequest(name, now); {
			hanging = append(hanging, name)
		}
	}
	if want := maxRequestsToMinorServices + (mainServices-1)*most; len(hanging) != want {
		t.Errorf("%d requests are under way, want %d", len(hanging), want)
	}
	if onlyListed, open := l.serviceFilter(now); !onlyListed || !slices.Equal(open, []string{"real"}) {
		t.Errorf("open are %v, among them alone: %t", open, onlyListed)
	}
	if l.beginRequest("late", now) {
		t.Error("a request to a further host was begun")
	}
	for range most {
		accept("real")
	}
	// Hosts become main ones and minor ones as they answer. The requests under way are counted as what they are then.
	for i, name := range hanging {
		if i%3 == 0 {
			l.endFailedRequest(name, false, now, 0)
		} else {
			l.endAnsweredRequest(name, true)
		}
		toMinor := 0
		for _, one := range l.byService {
			if !one.isMain {
				toMinor += one.requestsUnderway
			}
		}
		if toMinor != l.requestsToMinorServices {
			t.Fatalf("after %d answers %d requests go to minor services, counted are %d", i+1, toMinor, l.requestsToMinorServices)
		}
	}
}

// A push service that fails several devices in a row gets one request at a time, after a pause. After one success it gets several at
// once again.
func TestAPushServiceThatIsDownGetsOneRequest(t *testing.T) {
	l, now := newPushServices(100), time.Now()
	for range outbound.FailuresUntilDown {
		if !l.beginRequest("down", now) {
			t.Fatal("no request was begun")
		}
		l.endFailedRequest("down", true, now, 0)
	}
	if l.beginRequest("down", now) {
		t.Error("a request was begun without a pause")
	}
	now = now.Add(outbound.LongestDownPause)
	if !l.beginRequest("down", now) || l.beginRequest("down", now) {
		t.Error("after the pause not exactly one request was begun")
	}
	l.endAnsweredRequest("down", true)
	for i := range 3 {
		if !l.beginRequest("down", now) {
			t.Errorf("after a success request %d was not begun", i)
		}
	}
}

// Of many requests at once, the first failures show that a push service is down. The failures of the rest do not prolong its first
// pause, unless the service asks for more.
func TestConcurrentFailuresDoNotProlongTheFirstPause(t *testing.T) {
	l, now := newPushServices(100), time.Now()
	l.beginRequest("down", now)
	l.endAnsweredRequest("down", true) // a proven service gets many requests at once
	const most = 4 * outbound.FailuresUntilDown
	for range most {
		if !l.beginRequest("down", now) {
			t.Fatal("no request was begun")
		}
	}
	for range most - 1 {
		l.endFailedRequest("down", true, now, 0)
	}
	if pause := l.findOrAdd("down").retryAt.Sub(now); pause <= 0 || pause > 5*time.Second {
		t.Errorf("after %d failures at once the pause is %v", most-1, pause)
	}
	l.endFailedRequest("down", true, now, time.Minute)
	if pause := l.findOrAdd("down").retryAt.Sub(now); pause != time.Minute {
		t.Errorf("the push service asked for a minute, and the pause is %v", pause)
	}
	now = now.Add(time.Minute)
	if !l.beginRequest("down", now) {
		t.Fatal("no trial after the pause")
	}
	l.endFailedRequest("down", true, now, 0)
	if pause := l.findOrAdd("down").retryAt.Sub(now); pause <= 5*time.Second {
		t.Errorf("after a further trial the pause is %v", pause)
	}
}
