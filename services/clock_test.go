package services

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEvery(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	times := 0
	err := Every(ctx, time.Microsecond, func(context.Context) {
		if times++; times == 3 {
			cancel(errors.New("enough"))
		}
	})
	if !errors.Is(err, context.Canceled) || times < 3 {
		t.Errorf("after %d times: %v", times, err)
	}
}

// Turns follow each other after the rest that each asks for. The log says once that they fail, and once that they succeed again.
func TestTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log strings.Builder
		began, turns := time.Now(), 0
		err := TakeTurns(ctx, slog.New(slog.NewTextHandler(&log, nil)), "it waits", func(context.Context) (time.Duration, error) {
			switch turns++; turns {
			case 2, 3:
				return time.Second, errors.New("away")
			case 5:
				cancel()
				return time.Second, errors.New("cancelled")
			}
			return time.Minute, nil
		})
		if took := time.Since(began); !errors.Is(err, context.Canceled) || turns != 5 || took != 2*time.Minute+2*time.Second {
			t.Errorf("%d turns in %s: %v", turns, took, err)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], `msg="it waits" waits=true error=away`) || !strings.Contains(lines[1], `msg="it waits" waits=false error=<nil>`) {
			t.Errorf("it logs %q", lines)
		}
	})
}
