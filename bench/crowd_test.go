package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// A crowd opens its sockets in a process of its own, and says when each event came.
func TestACrowdSaysWhenItsEventsCame(t *testing.T) {
	k := &subscriptionServer{tokens: map[string]bool{}, pongs: make(chan string, 100), messages: []string{nextMessage}}
	address := serve(t, k.ServeHTTP)
	t.Setenv(childMode, crowdArgument)
	b := &bench{folder: t.TempDir()}
	one, err := b.startCrowd(t.Context(), address, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer one.stop()
	for i := 3; i < 7; i++ {
		if !k.tokens["Bearer dev:"+crowdPerson(i)] {
			t.Errorf("%s is not there, only %v", crowdPerson(i), k.tokens)
		}
	}
	told := stubAPI(t, func(q question) string {
		if !strings.Contains(q.Query, "publishAnnouncement") {
			t.Errorf("asked %s", q.Query)
		}
		k.writeAll(websocket.TextMessage, nextMessage)
		return `{"data":{}}`
	})
	for range 2 {
		result, err := announce(t.Context(), told, []crowd{one}, 0)
		if err != nil || !(result.rate > 0) || result.p99 <= 0 || result.p99 > time.Minute {
			t.Errorf("%+v, %v", result, err)
		}
	}
}

// A crowd that cannot open its sockets ends, and says why.
func TestACrowdThatCannotOpen(t *testing.T) {
	k := &subscriptionServer{refuse: true}
	t.Setenv(childMode, crowdArgument)
	b := &bench{folder: t.TempDir()}
	if _, err := b.startCrowd(t.Context(), serve(t, k.ServeHTTP), 0, 2); err == nil || !strings.Contains(err.Error(), "no upgrade") {
		t.Errorf("got %v", err)
	}
	for _, arguments := range [][]string{{"0", "many"}, {"first", "2"}} {
		if err := runCrowd("127.0.0.1:0", "127.0.0.1:1", arguments[0], arguments[1]); err == nil {
			t.Errorf("%q is taken", arguments)
		}
	}
}

// Before its sockets are open, a crowd says so.
func TestACrowdSaysWhetherItsSocketsAreOpen(t *testing.T) {
	opened := make(chan *fleet, 1)
	address := serve(t, crowdControl(t.Context(), opened).ServeHTTP)
	if err := answers("http://" + address + "/opened")(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v", err)
	}
	opened <- &fleet{}
	if err := answers("http://" + address + "/opened")(t.Context()); err != nil {
		t.Error(err)
	}
}

// meter is a node whose number of goroutines a test sets.
func meter(t *testing.T, goroutines func() int) *program {
	return &program{address: serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE go_goroutines gauge\ngo_goroutines_more 5\ngo_goroutines %d\n", goroutines())
	}), process: startChild(t, t.Context(), "wait")}
}

func TestTheCrowdsNodesSettle(t *testing.T) {
	left := 9
	nodes := []*program{meter(t, func() int { left--; return max(left, 3) }), meter(t, func() int { return 20 })}
	b := &bench{}
	after, err := b.settledState(t.Context(), nodes, crowdState{goroutines: 23})
	if err != nil || after.goroutines != 23 || after.resident <= 0 {
		t.Errorf("%+v, %v", after, err)
	}
	if _, err := readMetric(t.Context(), nodes[0].address, "go_threads"); err == nil || !strings.Contains(err.Error(), "no go_threads") {
		t.Errorf("a metric that is not there: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := b.settledState(ended, nodes, crowdState{}); err == nil {
		t.Error("a run that was ended goes on")
	}
}

func TestReportCrowd(t *testing.T) {
	b := &bench{report: &report{}}
	const megabyte = 1 << 20
	b.reportCrowd(1024, series{{rate: 5000, p50: time.Second, p99: 2 * time.Second}}, crowdState{goroutines: 100, resident: 90 * megabyte},
		crowdState{goroutines: 400, resident: 100 * megabyte}, crowdState{goroutines: 104, resident: 108 * megabyte})
	for i, want := range []struct {
		value   float64
		verdict string
	}{{10, "no"}, {2000, ""}, {1.04, "yes"}, {1.2, "no"}} {
		if l := b.report.lines[i]; l.value != want.value || l.goal.verdict(l.value) != want.verdict {
			t.Errorf("%+v, want %+v", l, want)
		}
	}
}
