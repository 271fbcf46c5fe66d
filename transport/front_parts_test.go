package transport

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func TestFrontContext(t *testing.T) {
	type key struct{}
	var c frontContext
	c.begin(context.WithValue(t.Context(), key{}, 1), time.Hour)
	if until, ok := c.Deadline(); !ok || time.Until(until) < 59*time.Minute || c.Err() != nil || c.Value(key{}) != 1 || c.waiting.Load() != nil {
		t.Errorf("before anybody waits: %v", c.Err())
	}
	derived, cancel := context.WithCancel(&c)
	defer cancel()
	if c.waiting.Load() == nil || c.Value(key{}) != 1 || derived.Err() != nil {
		t.Error("somebody waits")
	}
	c.end()
	<-derived.Done()
	if c.Err() != context.Canceled || derived.Err() != context.Canceled {
		t.Errorf("after the end: %v, %v", c.Err(), derived.Err())
	}
	var late, ended frontContext
	late.begin(t.Context(), -time.Second)
	if late.Err() != context.DeadlineExceeded {
		t.Errorf("late: %v", late.Err())
	}
	<-late.Done()
	ended.begin(t.Context(), time.Hour)
	ended.end()
	if ended.Err() != context.Canceled {
		t.Errorf("ended: %v", ended.Err())
	}
	<-ended.Done()
}

func TestTextMemory(t *testing.T) {
	m := newTextMemory[int](200)
	text := func(i int) []byte { return fmt.Appendf(nil, "text %04d", i) } // 9 bytes
	for i := range 50 {
		m.put(text(i), i, 1)
		if got, known := m.get(text(0)); !known || got != 0 {
			t.Fatalf("after %d: what is used all the time was forgotten", i)
		}
		if got, known := m.get(text(i)); !known || got != i {
			t.Fatalf("the newest: %d, %v", got, known)
		}
		if size := 10 * (len(m.young) + len(m.old)); size > 200 || m.bytes != 10*len(m.young) {
			t.Fatalf("%d bytes, %d of the young ones", size, m.bytes)
		}
	}
	if _, known := m.get(text(20)); known {
		t.Error("what was not used for long is still known")
	}
	m.put(text(60), 60, 500)
	if _, known := m.get(text(60)); known {
		t.Error("what is larger than the memory is kept")
	}
	changed := text(70)
	m.put(changed, 70, 0)
	changed[0]++
	if _, known := m.get(text(70)); !known {
		t.Error("the text was not copied")
	}
	collision := m.young[0]
	collision.text = text(81)
	for key := range m.young {
		m.young[key] = collision
	}
	if _, known := m.get(text(70)); known {
		t.Error("another text with the same hash was found")
	}
}
