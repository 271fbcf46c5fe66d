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

// A socket client opens its sockets in a process of its own, and says when each event came.
func TestSocketClientReportsWhenItsEventsCame(t *testing.T) {
	k := &subscriptionServer{receivedTokens: map[string]bool{}, pongs: make(chan string, 100), subscribeReplies: []string{nextMessage}}
	address := startHTTPServer(t, k.ServeHTTP)
	t.Setenv(childModeVariable, socketClientArgument)
	b := &bench{dataFolder: t.TempDir()}
	one, err := b.startSocketClient(t.Context(), address, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer one.stop()
	for i := 3; i < 7; i++ {
		if !k.receivedTokens["Bearer dev:"+socketClientUserKey(i)] {
			t.Errorf("%s is not there, only %v", socketClientUserKey(i), k.receivedTokens)
		}
	}
	publisher := startStubAPI(t, func(q receivedRequest) string {
		if !strings.Contains(q.Query, "publishAnnouncement") {
			t.Errorf("asked %s", q.Query)
		}
		k.writeToAllConns(websocket.TextMessage, nextMessage)
		return `{"data":{}}`
	})
	nodes := []*program{{process: one.process, api: publisher}}
	for range 2 {
		result, err := measureAnnouncementPush(t.Context(), nodes, []socketClientProcess{one}, 0)
		if err != nil || !(result.ratePerSecond > 0) || result.latencyP99 <= 0 || result.latencyP99 > time.Minute || result.serverCPUPerAnswer < 0 {
			t.Errorf("%+v, %v", result, err)
		}
	}
}

// A socket client that cannot open its sockets ends, and says why.
func TestSocketClientThatCannotOpenIsAnError(t *testing.T) {
	k := &subscriptionServer{refusesConnections: true}
	t.Setenv(childModeVariable, socketClientArgument)
	b := &bench{dataFolder: t.TempDir()}
	if _, err := b.startSocketClient(t.Context(), startHTTPServer(t, k.ServeHTTP), 0, 2); err == nil || !strings.Contains(err.Error(), "no upgrade") {
		t.Errorf("got %v", err)
	}
	for _, arguments := range [][]string{{"0", "many"}, {"first", "2"}} {
		if err := runSocketClient("127.0.0.1:0", "127.0.0.1:1", arguments[0], arguments[1]); err == nil {
			t.Errorf("%q is taken", arguments)
		}
	}
}

// A socket client says whether its sockets are open.
func TestSocketClientReportsWhetherItsSocketsAreOpen(t *testing.T) {
	opened := make(chan *socketFleet, 1)
	address := startHTTPServer(t, socketClientControlHandler(t.Context(), opened).ServeHTTP)
	if err := readyWhenAnswering("http://" + address + "/opened")(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v", err)
	}
	opened <- &socketFleet{}
	if err := readyWhenAnswering("http://" + address + "/opened")(t.Context()); err != nil {
		t.Error(err)
	}
}

// startStubMetricsNode starts a stub of a node whose /metrics give the number of goroutines that the function goroutines returns.
func startStubMetricsNode(t *testing.T, goroutines func() int) *program {
	return &program{address: startHTTPServer(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE go_goroutines gauge\ngo_goroutines_more 5\ngo_goroutines %d\n", goroutines())
	}), process: startChild(t, t.Context(), "wait")}
}

// waitForSettledNodeUsage waits until the nodes have as few goroutines as before, and then returns their usage.
func TestWaitForSettledNodeUsage(t *testing.T) {
	left := 9
	nodes := []*program{startStubMetricsNode(t, func() int { left--; return max(left, 3) }), startStubMetricsNode(t, func() int { return 20 })}
	b := &bench{}
	after, err := b.waitForSettledNodeUsage(t.Context(), nodes, totalNodeUsage{goroutines: 23})
	if err != nil || after.goroutines != 23 || after.memoryBytes <= 0 {
		t.Errorf("%+v, %v", after, err)
	}
	if _, err := readMetric(t.Context(), nodes[0].address, "go_threads"); err == nil || !strings.Contains(err.Error(), "no go_threads") {
		t.Errorf("a metric that is not there: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := b.waitForSettledNodeUsage(ended, nodes, totalNodeUsage{}); err == nil {
		t.Error("a run that was ended goes on")
	}
}

func TestReportCrowd(t *testing.T) {
	b := &bench{report: &report{}}
	const megabyte = 1 << 20
	b.reportMultiNodeSockets(1024, series{{ratePerSecond: 5000, latencyP50: time.Second, latencyP99: 2 * time.Second}}, totalNodeUsage{goroutines: 100, memoryBytes: 90 * megabyte},
		totalNodeUsage{goroutines: 400, memoryBytes: 100 * megabyte}, totalNodeUsage{goroutines: 104, memoryBytes: 108 * megabyte})
	for i, want := range []struct {
		value   float64
		verdict string
	}{{10, "no"}, {2000, ""}, {1.04, "yes"}, {1.2, "no"}} {
		if l := b.report.resultLines[i]; l.value != want.value || l.goal.verdict(l.value) != want.verdict {
			t.Errorf("%+v, want %+v", l, want)
		}
	}
}
