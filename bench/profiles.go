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
	profileLength = 1  // seconds
	profileLines  = 30 // of each of the two lists in a text
)

// profiler keeps one CPU profile of our servers for each measurement: the profile of the busiest second. A nil profiler keeps
// nothing.
type profiler struct {
	folder string // where their texts are written

	mu    sync.Mutex
	what  string                // the present measurement; "" for none
	taken map[string]cpuProfile // by measurement
}

// cpuProfile is a profile as the server sends it, and how much processor time the server took meanwhile.
type cpuProfile struct {
	raw  []byte        // what the server sent
	busy time.Duration // the processor time of the server meanwhile
}

// newProfiler makes a profiler that writes into a folder, or nil without one.
func newProfiler(folder string) *profiler {
	if folder == "" {
		return nil
	}
	return &profiler{folder: folder, taken: map[string]cpuProfile{}}
}

// readProgress looks for the name of a measurement in a progress message, and begins that measurement.
func (p *profiler) readProgress(progress string) {
	if what, _, found := strings.Cut(progress, ": round "); found {
		p.begin(what)
	}
}

// begin sets the name of the measurement that begins now; "" for none.
func (p *profiler) begin(what string) {
	if p != nil {
		p.mu.Lock()
		p.what = what
		p.mu.Unlock()
	}
}

// measurement returns the name of the present measurement.
func (p *profiler) measurement() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.what
}

// arguments returns the arguments that make a server serve its profiles, and the address of the profiles.
func (p *profiler) arguments() (arguments []string, address string, err error) {
	if p == nil {
		return nil, "", nil
	}
	port, err := freePort()
	address = fmt.Sprintf("127.0.0.1:%d", port)
	return []string{"--pprof", "--operations-listen", address}, address, err
}

// watch takes one profile of a server after another, until the server ends or does not answer.
func (p *profiler) watch(ctx context.Context, pid int, address string) {
	for ctx.Err() == nil {
		what, before := p.measurement(), busyTime(pid)
		raw, err := fetchProfile(ctx, address)
		if err != nil {
			return
		}
		if p.measurement() == what {
			p.keep(what, cpuProfile{raw, busyTime(pid) - before})
		}
	}
}

// keep keeps a profile if it is the busiest of its measurement so far.
func (p *profiler) keep(what string, one cpuProfile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if what != "" && (p.taken[what].raw == nil || one.busy > p.taken[what].busy) {
		p.taken[what] = one
	}
}

// busyTime returns the processor time that a process has used so far. It is 0 where the system does not tell; then the first profile of
// a measurement is kept.
func busyTime(pid int) time.Duration {
	busy, err := processorTime(pid)
	if err != nil {
		return 0
	}
	return busy
}

func fetchProfile(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, profileLength), nil)
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

// write writes the text of each profile: its heaviest functions, once by their own time, and once by their time with the functions that
// they call.
func (p *profiler) write(ctx context.Context, command string) error {
	if p == nil {
		return nil
	}
	if err := os.MkdirAll(p.folder, 0o755); err != nil {
		return err
	}
	p.mu.Lock()
	taken := maps.Clone(p.taken) // a server that ends may still be watched
	p.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(taken)) {
		text, err := taken[what].text(ctx, what, command)
		if err == nil {
			err = os.WriteFile(filepath.Join(p.folder, fileName(what)), []byte(text), 0o644)
		}
		if err != nil {
			return fmt.Errorf("the profile of %s: %w", what, err)
		}
	}
	return nil
}

// text returns the profile as text, under the name of its measurement and the command of the run.
func (p cpuProfile) text(ctx context.Context, what, command string) (text string, err error) {
	file, err := os.CreateTemp("", "tidings-profile-")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(p.raw)
	if err = cmp.Or(err, file.Close()); err != nil {
		return "", err
	}
	text = what + "\n\nThe server's processor time in the busiest second, by \"" + command + "\".\n"
	for _, by := range []struct{ title, flag string }{{"By its own time", "-flat"}, {"With what it calls", "-cum"}} {
		top, err := runOnce(ctx, ".", "go", "tool", "pprof", "-top", by.flag, fmt.Sprintf("-nodecount=%d", profileLines), file.Name())
		if err != nil {
			return "", err
		}
		text += "\n" + by.title + ":\n\n" + withoutOrigin(top)
	}
	return text, nil
}

// withoutOrigin removes the lines that differ for each build and run.
func withoutOrigin(top string) string {
	var kept strings.Builder
	for line := range strings.Lines(top) {
		if name, _, _ := strings.Cut(line, ":"); name != "File" && name != "Build ID" && name != "Time" {
			kept.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
	}
	return kept.String()
}

// notInNames matches what is replaced in the name of a measurement to make a file name.
var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// fileName returns the name of the file for a measurement: "home feed page of 20" is in home-feed-page-of-20.txt.
func fileName(what string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(what), "-"), "-") + ".txt"
}
