package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	profileSeconds      = 1  // the length of a CPU profile, in seconds
	linesPerProfileList = 30 // functions in each of the two lists of a profile's text
)

// profiler keeps one CPU profile of our servers for each measurement: the profile of the busiest second. A nil profiler keeps
// nothing.
type profiler struct {
	folder string // where the texts of the profiles are written

	mu                          sync.Mutex            // guards the fields below
	measurementName             string                // the present measurement; "" for none
	busiestProfileByMeasurement map[string]cpuProfile // by the measurement's name
}

// cpuProfile is a profile as the server sends it, and how much processor time the server took meanwhile.
type cpuProfile struct {
	pprofData []byte        // what the server sent
	cpuTime   time.Duration // the processor time of the server meanwhile
}

// newProfiler makes a profiler that writes into a folder, or nil without one.
func newProfiler(folder string) *profiler {
	if folder == "" {
		return nil
	}
	return &profiler{folder: folder, busiestProfileByMeasurement: map[string]cpuProfile{}}
}

// beginMeasurementFromProgress looks for the name of a measurement in a progress message, and begins that measurement.
func (p *profiler) beginMeasurementFromProgress(progress string) {
	if what, _, found := strings.Cut(progress, ": round "); found {
		p.beginMeasurement(what)
	}
}

// beginMeasurement sets the name of the measurement that begins now; "" for none.
func (p *profiler) beginMeasurement(what string) {
	if p != nil {
		p.mu.Lock()
		p.measurementName = what
		p.mu.Unlock()
	}
}

// currentMeasurement returns the name of the present measurement.
func (p *profiler) currentMeasurement() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.measurementName
}

// profilingServerArguments returns the arguments that make a server serve its profiles, and the address of the profiles.
func (p *profiler) profilingServerArguments() (arguments []string, address string, err error) {
	if p == nil {
		return nil, "", nil
	}
	port, err := freePort()
	address = fmt.Sprintf("127.0.0.1:%d", port)
	return []string{"--pprof", "--operations-listen", address}, address, err
}

// profileRepeatedly takes one profile of a server after another, until the server ends or does not answer.
func (p *profiler) profileRepeatedly(ctx context.Context, pid int, address string) {
	for ctx.Err() == nil {
		what, before := p.currentMeasurement(), processorTimeOrZero(pid)
		raw, err := fetchProfile(ctx, address)
		if err != nil {
			return
		}
		if p.currentMeasurement() == what {
			p.keepBusiest(what, cpuProfile{raw, processorTimeOrZero(pid) - before})
		}
	}
}

// keepBusiest keeps a profile if the server used more processor time in it than in the earlier profiles of the measurement what.
func (p *profiler) keepBusiest(what string, one cpuProfile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if what != "" && (p.busiestProfileByMeasurement[what].pprofData == nil || one.cpuTime > p.busiestProfileByMeasurement[what].cpuTime) {
		p.busiestProfileByMeasurement[what] = one
	}
}

// processorTimeOrZero returns the processor time that a process has used so far. It is 0 where the system does not tell; then the
// first profile of a measurement is kept.
func processorTimeOrZero(pid int) time.Duration {
	busy, err := processorTime(pid)
	if err != nil {
		return 0
	}
	return busy
}

// fetchProfile takes a CPU profile of profileSeconds from the server's address for profiles.
func fetchProfile(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, profileSeconds), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", request.URL, response.Status)
	}
	return io.ReadAll(response.Body)
}

// writeProfiles writes the text of each profile: its heaviest functions, once by their own time, and once by their time with the
// functions that they call.
func (p *profiler) writeProfiles(ctx context.Context, command string) error {
	if p == nil {
		return nil
	}
	if err := os.MkdirAll(p.folder, 0o755); err != nil {
		return err
	}
	p.mu.Lock()
	taken := maps.Clone(p.busiestProfileByMeasurement) // profileRepeatedly may still add a profile of a server that is ending
	p.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(taken)) {
		text, err := taken[what].heaviestFunctionsText(ctx, what, command)
		if err == nil {
			err = os.WriteFile(filepath.Join(p.folder, profileFileName(what)), []byte(text), 0o644)
		}
		if err != nil {
			return fmt.Errorf("the profile of %s: %w", what, err)
		}
	}
	return nil
}

// heaviestFunctionsText returns the profile as text, under the name of its measurement and the command of the run.
func (p cpuProfile) heaviestFunctionsText(ctx context.Context, what, command string) (text string, err error) {
	file, err := os.CreateTemp("", "tidings-profile-")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(p.pprofData)
	if err = cmp.Or(err, file.Close()); err != nil {
		return "", err
	}
	text = what + "\n\nThe server's processor time in the busiest second, by \"" + command + "\".\n"
	for _, by := range []struct{ title, flag string }{{"By its own time", "-flat"}, {"With what it calls", "-cum"}} {
		top, err := runForOutput(ctx, ".", "go", "tool", "pprof", "-top", by.flag, fmt.Sprintf("-nodecount=%d", linesPerProfileList), file.Name())
		if err != nil {
			return "", err
		}
		text += "\n" + by.title + ":\n\n" + withoutBuildSpecificLines(top)
	}
	return text, nil
}

// withoutBuildSpecificLines removes from the output of pprof the lines that differ for each build and run.
func withoutBuildSpecificLines(top string) string {
	var kept strings.Builder
	for line := range strings.Lines(top) {
		if name, _, _ := strings.Cut(line, ":"); name != "File" && name != "Build ID" && name != "Time" {
			kept.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
	}
	return kept.String()
}

// nonFileNameChars matches what is replaced in the name of a measurement to make a file name.
var nonFileNameChars = regexp.MustCompile(`[^a-z0-9]+`)

// profileFileName returns the name of the file for a measurement: "home feed page of 20" is in home-feed-page-of-20.txt.
func profileFileName(what string) string {
	return strings.Trim(nonFileNameChars.ReplaceAllString(strings.ToLower(what), "-"), "-") + ".txt"
}
