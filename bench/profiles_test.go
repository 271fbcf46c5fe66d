package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestProfilerKeepsTheBusiest(t *testing.T) {
	p := newProfiler(t.TempDir())
	p.keepBusiest("", cpuProfile{[]byte("nothing is measured"), time.Hour})
	p.beginMeasurementFromProgress("seeding")
	if p.currentMeasurement() != "" {
		t.Errorf("seeding measures %q", p.currentMeasurement())
	}
	p.beginMeasurementFromProgress("home feed: round 1 of 3")
	for i, busy := range []time.Duration{3, 5, 4} {
		p.keepBusiest(p.currentMeasurement(), cpuProfile{[]byte{byte(i)}, busy})
	}
	p.beginMeasurementFromProgress("sockets: round 1 of 3")
	p.keepBusiest(p.currentMeasurement(), cpuProfile{[]byte("idle"), 0})
	if len(p.busiestProfileByMeasurement) != 2 || !bytes.Equal(p.busiestProfileByMeasurement["home feed"].pprofData, []byte{1}) || string(p.busiestProfileByMeasurement["sockets"].pprofData) != "idle" {
		t.Errorf("kept %v", p.busiestProfileByMeasurement)
	}
}

// When programs take turns, each program is profiled under its own name or not at all. Nothing is profiled after the last
// turn.
func TestEachTurnIsProfiledUnderItsOwnName(t *testing.T) {
	b := &bench{options: options{rounds: 1, turnSeconds: 1, connections: 1}, report: &report{}, progressOutput: io.Discard, profiler: newProfiler(t.TempDir())}
	var wrong atomic.Value
	address := startHTTPServer(t, func(w http.ResponseWriter, r *http.Request) {
		want := map[string]string{"Bearer dev:a": "first page", "Bearer dev:b": ""}[r.Header.Get("Authorization")]
		if now := b.profiler.currentMeasurement(); now != want {
			wrong.Store(fmt.Sprintf("the profile of %q is kept in the turn of %q", now, want))
		}
		fmt.Fprint(w, `{"data":{}}`)
	})
	first := (&contender{label: "a", target: newLoadTarget(address, os.Getpid(), "{ a }", []string{"dev:a"})}).profileAs("first page")
	second := &contender{label: "b", target: newLoadTarget(address, os.Getpid(), "{ a }", []string{"dev:b"})}
	if err := b.measureContenders(t.Context(), "pages", first, second); err != nil {
		t.Fatal(err)
	}
	if fault := wrong.Load(); fault != nil || b.profiler.currentMeasurement() != "" {
		t.Errorf("%v; after the turns %q is profiled", fault, b.profiler.currentMeasurement())
	}
}

func TestANilProfilerDoesNothing(t *testing.T) {
	p := newProfiler("")
	p.beginMeasurementFromProgress("home feed: round 1 of 3")
	arguments, _, err := p.profilingServerArguments()
	if arguments != nil || err != nil || p.writeProfiles(t.Context(), "") != nil {
		t.Errorf("a run without --profiles starts servers with %v, %v", arguments, err)
	}
}

// profileRepeatedly takes profiles of a server until it ends, and the written profile names the functions that the server ran.
func TestProfilesAreWritten(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	server := httptest.NewServer(mux)
	p := newProfiler(filepath.Join(t.TempDir(), "new"))
	p.beginMeasurementFromProgress("a loop: round 1 of 1")
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		p.profileRepeatedly(t.Context(), os.Getpid(), strings.TrimPrefix(server.URL, "http://"))
	}()
	for !p.hasProfileOf("a loop") {
		select {
		case <-watched:
			t.Fatal("the server is not watched any more")
		default:
			spin()
		}
	}
	server.CloseClientConnections()
	server.Close()
	<-watched
	if err := p.writeProfiles(t.Context(), "go run ./bench --profiles x"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(p.folder, "a-loop.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a loop\n", `by "go run ./bench --profiles x"`, "By its own time:", "With what it calls:", "bench.spin", "Duration: "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	for _, none := range []string{"File:", "Time:", "Build ID:", os.TempDir()} {
		if strings.Contains(string(text), none) {
			t.Errorf("there is %q in\n%s", none, text)
		}
	}
}

// hasProfileOf reports whether there is a profile of a measurement.
func (p *profiler) hasProfileOf(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busiestProfileByMeasurement[what].pprofData != nil
}

// spinCount is raised by the function spin, so that the compiler does not remove its loop.
var spinCount int

// spin keeps a processor busy for a moment, so that profiles contain its name.
//
//go:noinline
func spin() {
	for range 1_000_000 {
		spinCount++
	}
}

func TestProfilesOptionWritesNoResults(t *testing.T) {
	o, err := parseOptions([]string{"--profiles", "x", "--results", "y"}, &bytes.Buffer{})
	if err != nil || o.resultsPath != "-" || o.profilesFolder != "x" {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestProfileFileName(t *testing.T) {
	for what, want := range map[string]string{
		"home feed page of 20":          "home-feed-page-of-20.txt",
		"badge query, every source lit": "badge-query-every-source-lit.txt",
		"(x)":                           "x.txt",
	} {
		if got := profileFileName(what); got != want {
			t.Errorf("%q is in %q, want %q", what, got, want)
		}
	}
}
