package redistest

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

// LogRecorder is a log that a test can read. The zero value is empty.
type LogRecorder struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

// Write records a log line.
func (r *LogRecorder) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(line)
}

// String is the log so far.
func (r *LogRecorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// Log is a logger that writes into the recorder.
func (r *LogRecorder) Log() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

// ManualClock stands still until a test moves it.
type ManualClock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

// NewManualClock makes a clock that stands at a time.
func NewManualClock(now time.Time) *ManualClock { return &ManualClock{now: now} }

// Now is the time that the clock shows.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Move moves the clock forward, or back if by is negative.
func (c *ManualClock) Move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}
