package services

import (
	"context"
	"errors"
	"testing"
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
