package transport

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/99designs/gqlgen/graphql"

	"tidings/tests/eventually"
)

// newIdleOperation makes an operation whose channel a test fills. Its messages are dropped, because its socket is closing.
func newIdleOperation(sockets *Sockets, next graphql.ResponseHandler) (*operation, chan int) {
	channel := make(chan int, 1)
	silent := &socket{peer: peer{sockets: sockets, ctx: context.Background(), closing: true}}
	silent.sender = silent
	one := newOperation(&silent.peer, "1")
	one.next = next
	one.subscriptionState.Store(subscriptionIdle)
	one.tapResolverChannel((<-chan int)(channel))
	return one, channel
}

func TestWorkersRunABoundedNumberOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sockets := NewSockets(SocketConfig{})
		sockets.workers.limit = 3
		var now, most, turns atomic.Int32
		gate := make(chan struct{})
		for range 20 {
			one, channel := newIdleOperation(sockets, func(context.Context) *graphql.Response {
				most.Store(max(most.Load(), now.Add(1)))
				<-gate
				now.Add(-1)
				turns.Add(1)
				return &graphql.Response{Data: []byte(`{}`)}
			})
			channel <- 1
			one.Wake()
		}
		synctest.Wait()
		if got := now.Load(); got != 3 {
			t.Errorf("%d turns at a time, want 3", got)
		}
		close(gate)
		synctest.Wait()
		if turns.Load() != 20 || most.Load() != 3 {
			t.Errorf("%d turns, at most %d at a time", turns.Load(), most.Load())
		}
		if workers := &sockets.workers; workers.running != 0 || workers.firstQueued != nil || workers.lastQueued != nil {
			t.Errorf("left: %d running, %v waiting", workers.running, workers.firstQueued)
		}
	})
}

func TestAWaitingWorkerGivesUpItsSlot(t *testing.T) {
	w := &workers{limit: 1, running: 1}
	w.freeSlot()
	if w.running != 0 {
		t.Errorf("%d running after one left", w.running)
	}
	if !w.takeSlot() || w.running != 1 {
		t.Errorf("a free slot was not given back: %d running", w.running)
	}
	if !w.takeSlot() || w.running != 2 {
		t.Errorf("a worker that came back had to end: %d running", w.running)
	}
	if w.takeSlot() {
		t.Error("a slot was given beyond twice the limit")
	}
}

// TestWorkersOfFastClientsAreKept counts the workers that start: while clients take their frames at once, the same workers go on.
func TestWorkersOfFastClientsAreKept(t *testing.T) {
	w := &workers{limit: 3}
	started := 0
	for range 2 * w.limit { // the workers that the limit allows, and a replacement for each while it writes
		w.running++
		started++
	}
	for range 1000 {
		w.mu.Lock()
		w.firstQueued = new(operation) // work is waiting
		w.mu.Unlock()
		w.freeSlot()
		if !w.takeSlot() {
			t.Fatal("a worker had to end, and another one would start for it")
		}
	}
	if w.running != started {
		t.Errorf("%d workers after %d", w.running, started)
	}
}

// TestNoWakeUpIsLost has many subscriptions, each with a hub that puts values during turns: the last rendered value must be
// the last one put.
func TestNoWakeUpIsLost(t *testing.T) {
	sockets := NewSockets(SocketConfig{})
	const operations, values = 50, 200
	var all sync.WaitGroup
	for range operations {
		var rendered atomic.Int64
		var one *operation
		one, channel := newIdleOperation(sockets, func(context.Context) *graphql.Response {
			value, ok := one.eventSlot.TryRecv()
			if !ok {
				t.Error("a turn without an event")
				return nil
			}
			if last := rendered.Swap(value.Int()); last >= value.Int() {
				t.Errorf("%d came after %d", value.Int(), last)
			}
			return &graphql.Response{Data: []byte(`{}`)}
		})
		all.Go(func() {
			for value := 1; value <= values; value++ {
				select {
				case <-channel:
				default:
				}
				channel <- value
				one.Wake()
			}
			eventually.Holds(t, "every value is rendered", func() bool { return rendered.Load() == values && one.subscriptionState.Load() == subscriptionIdle })
		})
	}
	all.Wait()
}

// tapResolverChannel replaces the first channel of an operation, and returns every other result unchanged.
func TestTapIgnoresResultsThatAreNoChannel(t *testing.T) {
	one := &operation{execution: &execution{}}
	var none <-chan int
	for _, result := range []any{nil, 5, none} {
		if got := one.tapResolverChannel(result); !reflect.DeepEqual(got, result) || one.resolverChannel.IsValid() {
			t.Errorf("%v became %v", result, got)
		}
	}
	channel := make(chan int, 1)
	got, ok := one.tapResolverChannel((<-chan int)(channel)).(<-chan int)
	if !ok || got == (<-chan int)(channel) {
		t.Errorf("the channel was not replaced by one of its own type: %T", got)
	}
	if again := one.tapResolverChannel((<-chan int)(channel)); again != any((<-chan int)(channel)) {
		t.Error("a second channel was taken too")
	}
}
