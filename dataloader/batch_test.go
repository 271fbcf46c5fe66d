package dataloader

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// squareReader reads the squares of even keys, and records the keys of each read. Odd keys have no value.
type squareReader struct {
	mu          sync.Mutex // guards keysOfReads
	keysOfReads [][]int    // the keys of each read
	err         error      // what read returns
}

func (s *squareReader) read(_ context.Context, keys []int) (map[int]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keysOfReads = append(s.keysOfReads, slices.Sorted(slices.Values(keys)))
	found := map[int]int{}
	for _, key := range keys {
		if key%2 == 0 {
			found[key] = key * key
		}
	}
	return found, s.err
}

func TestABatchReadsEachKeyOnce(t *testing.T) {
	var b batch[int, int]
	s := &squareReader{}
	for _, keys := range [][]int{{2, 4, 5, 4}, {4, 5, 6}, {2, 5}, nil} {
		found, err := b.loadMany(t.Context(), keys, s.read)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if value, ok := found[key]; ok != (key%2 == 0) || value != key*key && ok {
				t.Errorf("%d: %d, %t", key, value, ok)
			}
		}
	}
	if len(s.keysOfReads) != 2 || !slices.Equal(s.keysOfReads[0], []int{2, 4, 5}) || !slices.Equal(s.keysOfReads[1], []int{6}) {
		t.Errorf("read were %v: each key once, a missing one too", s.keysOfReads)
	}
}

func TestConcurrentCallersShareARead(t *testing.T) {
	var b batch[int, int]
	s := &squareReader{}
	reading, goOn := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		_, err := b.loadMany(t.Context(), []int{2, 4}, func(ctx context.Context, keys []int) (map[int]int, error) {
			close(reading)
			<-goOn
			return s.read(ctx, keys)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-reading
	for range 8 {
		group.Go(func() {
			found, err := b.loadMany(t.Context(), []int{4, 6}, s.read)
			if err != nil || found[4] != 16 || found[6] != 36 {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.loadMany(ctx, []int{2}, s.read); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever has gone waits on: %v", err)
	}
	close(goOn)
	group.Wait()
	if len(s.keysOfReads) != 2 {
		t.Errorf("read were %v", s.keysOfReads)
	}
}

func TestAFailedReadIsForgotten(t *testing.T) {
	var b batch[int, int]
	s := &squareReader{err: errors.New("away")}
	if _, err := b.loadMany(t.Context(), []int{2, 4}, s.read); !errors.Is(err, s.err) {
		t.Errorf("%v", err)
	}
	s.err = nil
	if found, err := b.loadMany(t.Context(), []int{2}, s.read); err != nil || found[2] != 4 {
		t.Errorf("the failure was remembered: %v, %v", found, err)
	}
}

func TestAPanicReleasesWaitingCallers(t *testing.T) {
	var b batch[int, int]
	reading, goOn := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		defer func() { _ = recover() }()
		_, _ = b.loadMany(t.Context(), []int{2}, func(context.Context, []int) (map[int]int, error) {
			close(reading)
			<-goOn
			panic("a fault")
		})
		t.Error("the panic was lost")
	})
	<-reading
	c := b.claim([]int{2})
	close(goOn)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := b.collect(ctx, []int{2}, c); !errors.Is(err, errBroken) {
		t.Errorf("who waited got %v", err)
	}
	group.Wait()
	if found, err := b.loadMany(t.Context(), []int{2}, (&squareReader{}).read); err != nil || found[2] != 4 {
		t.Errorf("after it: %v, %v", found, err)
	}
}

func TestKeptValuesAreNotReadAgain(t *testing.T) {
	var b batch[int, int]
	s := &squareReader{}
	b.keep(2, 7)
	b.keepIfAbsent(map[int]int{2: 8, 4: 9})
	if found, err := b.loadMany(t.Context(), []int{2, 4}, s.read); err != nil || found[2] != 7 || found[4] != 9 || len(s.keysOfReads) != 0 {
		t.Errorf("%v, %v, read were %v", found, err, s.keysOfReads)
	}
}

// A list is read in one read, and its other keys are collected only once, even if the items are requested one by one.
func TestAnItemIsReadWithItsWholeList(t *testing.T) {
	var b batch[int, int]
	s := &squareReader{}
	listed := 0
	others := func() []int {
		listed++
		return []int{2, 3, 4, 5}
	}
	for key := 2; key <= 5; key++ {
		if value, found, err := b.loadOne(t.Context(), key, others, s.read); err != nil || found != (key%2 == 0) || found && value != key*key {
			t.Errorf("of %d: %d, %t, %v", key, value, found, err)
		}
	}
	if listed != 1 || len(s.keysOfReads) != 1 {
		t.Errorf("the list was gone through %d times, and read were %v", listed, s.keysOfReads)
	}
}

// testKey is a type of keys for ReadShared.
type testKey string

// ReadShared reads a key once for a response, again after ForgetAll, and each time if the context has no loader.
func TestReadSharedReadsOncePerResponse(t *testing.T) {
	read := 0
	ask := func(ctx context.Context, key testKey) int {
		value, err := ReadShared(ctx, key, func(context.Context) (int, error) {
			read++
			return len(key), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	ctx := With(t.Context(), newCountingReader().readers())
	for _, key := range []testKey{"one", "one", "three"} {
		if got := ask(ctx, key); got != len(key) {
			t.Errorf("%s is read as %d", key, got)
		}
	}
	if read != 2 {
		t.Errorf("read %d times for two keys", read)
	}
	From(ctx).ForgetAll()
	if ask(ctx, "one"); read != 3 {
		t.Error("what was read before a change is answered after it")
	}
	if ask(t.Context(), "one"); read != 4 {
		t.Error("nothing is read outside of a response")
	}
}

// While loadOne collects other keys, another call may claim its key. Then loadOne reads nothing: it takes the value from the other
// call.
func TestAKeyThatIsClaimedMeanwhileIsNotReadWithOthers(t *testing.T) {
	var b batch[int, string]
	var reads [][]int
	fetch := func(_ context.Context, keys []int) (map[int]string, error) {
		reads = append(reads, keys)
		return map[int]string{1: "one"}, nil
	}
	value, found, err := b.loadOne(t.Context(), 1, func() []int {
		if _, _, err := b.loadOne(t.Context(), 1, func() []int { return []int{2} }, fetch); err != nil {
			t.Fatal(err)
		}
		return []int{2, 3}
	}, fetch)
	if value != "one" || !found || err != nil || len(reads) != 1 {
		t.Errorf("%q, %v, %v after the reads %v", value, found, err, reads)
	}
}

// Each item of a list that is longer than one read is read once, and no read has more keys than the bound.
func TestItemsOfALongListAreReadInBoundedReads(t *testing.T) {
	var b batch[int, int]
	s := &squareReader{}
	others := func() []int { return []int{2, 3, 4, 5, 6, 7} }
	two := func(others int) int { return min(others, 2) }
	for _, key := range []int{7, 2, 3, 4, 5, 6} {
		if value, found, err := b.loadOneBounded(t.Context(), key, two, others, s.read); err != nil || found != (key%2 == 0) || found && value != key*key {
			t.Errorf("of %d: %d, %t, %v", key, value, found, err)
		}
	}
	if want := [][]int{{2, 3, 7}, {4, 5, 6}}; !slices.EqualFunc(s.keysOfReads, want, slices.Equal[[]int]) {
		t.Errorf("read were %v, want %v", s.keysOfReads, want)
	}
}
