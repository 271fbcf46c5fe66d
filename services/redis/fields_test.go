package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services"
	"tidings/services/redis/redistest"
)

func TestEachFieldReadGetsItsOwnAnswer(t *testing.T) {
	eachRedisMode(t, func(t *testing.T, mode, url string) {
		c := connect(t, Options{URL: url})
		fields := NewFields([]string{"a", "none", "b"})
		const keys = 50
		for i := range keys {
			if err := c.Commands().HSet(t.Context(), fmt.Sprintf("{u%d}:h", i), "a", i, "b", "").Err(); err != nil {
				t.Fatal(err)
			}
		}
		var readers sync.WaitGroup
		for reader := range 40 {
			readers.Go(func() {
				for i := range 100 {
					i = (i + reader) % (keys + 1)
					want := []string{fmt.Sprint(i), AbsentField, ""}
					if i == keys { // there is no such key
						want = []string{AbsentField, AbsentField, AbsentField}
					}
					if got, err := c.ReadFields(t.Context(), fmt.Sprintf("{u%d}:h", i), fields, nil); err != nil || !slices.Equal(got, want) {
						t.Errorf("key %d: %q, %v, want %q", i, got, err, want)
						return
					}
				}
			})
		}
		readers.Wait()
	})
}

func TestFieldReadsHaveTheErrorsOfPlainOnes(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		c, fields := connect(t, Options{URL: url}), NewFields([]string{"a"})
		if err := c.Commands().Set(t.Context(), "text", "a", 0).Err(); err != nil {
			t.Fatal(err)
		}
		_, err := c.ReadFields(t.Context(), "text", fields, nil)
		if !redis.HasErrorPrefix(err, "WRONGTYPE") || !IsWrongType(err) || services.IsUnavailable(MapError(err)) {
			t.Errorf("a wrong type: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		ctx, trips := WithRoundTrips(ended)
		if _, err := c.ReadFields(ctx, "text", fields, nil); !errors.Is(err, context.Canceled) || trips.Count() != 0 {
			t.Errorf("a caller who has gone: %v, %d round trips", err, trips.Count())
		}
		hurried, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // less than two round trips may take
		defer cancel()
		ctx, trips = WithRoundTrips(hurried)
		if got, err := c.ReadFields(ctx, "none", fields, nil); err != nil || got[0] != AbsentField || trips.Count() != 1 {
			t.Errorf("a caller in a hurry: %q, %v, %d round trips", got, err, trips.Count())
		}
	})
}

func TestReadEachAnswersInOrder(t *testing.T) {
	eachRedisMode(t, func(t *testing.T, mode, url string) {
		c := connect(t, Options{URL: url})
		fields, few := NewFields([]string{"a", "none", "b"}), NewFewFields([]string{"a", "none", "b"})
		var keys []string
		var reads []KeyRead
		var want [][]string
		for i := range 300 {
			keys = append(keys, fmt.Sprintf("{u%d}:h", i))
			reads = append(reads, KeyRead{keys[i], fields})
			if i%2 == 1 {
				reads[i].Read = few
			}
			if i%3 == 2 { // there is no such key
				want = append(want, []string{AbsentField, AbsentField, AbsentField})
				continue
			}
			want = append(want, []string{fmt.Sprint(i), AbsentField, ""})
			if err := c.Commands().HSet(t.Context(), keys[i], "a", i, "b", "").Err(); err != nil {
				t.Fatal(err)
			}
		}
		read := func(ctx context.Context) (got [][]string, err error) {
			err = c.ReadEach(ctx, reads, func(i int, texts []string) {
				if i != len(got) {
					t.Errorf("hash %d comes after %d others", i, len(got))
				}
				got = append(got, slices.Clone(texts))
			})
			return got, err
		}
		ctx, trips := WithRoundTrips(t.Context())
		for range 2 { // the second time with commands that were used
			if got, err := read(ctx); err != nil || !slices.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("%q, %v", got, err)
			}
		}
		if trips.Count() != 2 {
			t.Errorf("%d round trips for two reads", trips.Count())
		}
		// Keys of the wrong type are lost data. They are emptied before any answer is handed on.
		for _, wrong := range []int{1, 299} {
			if err := c.Commands().Set(t.Context(), keys[wrong], "a", 0).Err(); err != nil {
				t.Fatal(err)
			}
			want[wrong] = []string{AbsentField, AbsentField, AbsentField}
		}
		if got, err := read(t.Context()); err != nil || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("after keys of the wrong type: %q, %v", got, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := read(ended); !services.IsUnavailable(err) && !errors.Is(err, context.Canceled) || got != nil {
			t.Errorf("a caller who has gone: %d answers, %v", len(got), err)
		}
	})
}

func TestReadEachReturnsRefusals(t *testing.T) {
	for kind, url := range map[string]string{"redis": redistest.Redis(t), "cluster": redistest.Cluster(t)} { // the embedded one has no access lists
		c, fields := connect(t, Options{URL: url}), NewFields([]string{"a"})
		read := func() error {
			return c.ReadEach(t.Context(), []KeyRead{{"{1}one", fields}, {"{2}two", fields}}, func(i int, texts []string) {
				if texts[0] != AbsentField {
					t.Errorf("hash %d is %q", i, texts)
				}
			})
		}
		if err := read(); err != nil {
			t.Fatal(err)
		}
		if err := forbidCommand(t, c, "hgetall"); err != nil {
			t.Fatal(err)
		}
		if err := read(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s: a command that the server refuses: %v", kind, err)
		}
	}
}

// forbidCommand forbids a command to the user of a client on every server. The test's end allows it again, because other tests use the
// cluster too.
func forbidCommand(t *testing.T, c *Client, command string) error {
	set := func(ctx context.Context, rule string) error {
		on := func(ctx context.Context, server *redis.Client) error {
			return server.Do(ctx, "ACL", "SETUSER", "default", rule+command).Err()
		}
		if cluster, ok := c.redis.(*redis.ClusterClient); ok {
			return cluster.ForEachMaster(ctx, on)
		}
		return on(ctx, c.redis.(*redis.Client))
	}
	t.Cleanup(func() {
		if err := set(context.Background(), "+"); err != nil {
			t.Error(err)
		}
	})
	return set(t.Context(), "-")
}

func TestConcurrentFieldReadsAreBatched(t *testing.T) {
	server := redistest.NewServer(t)
	c, fields := connect(t, Options{URL: server.URL()}), NewFields([]string{"a"})
	sent := &requestCounter{}
	c.redis.AddHook(sent)
	const readers, reads = 64, 50
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			for range reads {
				if _, err := c.ReadFields(t.Context(), "k", fields, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := sent.count(); n >= readers*reads/2 {
		t.Errorf("%d reads took %d writes: they do not share", readers*reads, n)
	}
	if c.fieldReads.batchesUnderWay != 0 || len(c.fieldReads.waiting) != 0 {
		t.Errorf("afterwards %d batches are under way and %d reads wait", c.fieldReads.batchesUnderWay, len(c.fieldReads.waiting))
	}
}

func TestFieldReadsTimeOutWithoutADeadline(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.NewServer(t).Addr())
	c, fields := connect(t, Options{URL: proxy.URL(), ReadTimeout: 200 * time.Millisecond}), NewFields([]string{"a"})
	proxy.BlackHole(true)
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			if _, err := c.ReadFields(t.Context(), "k", fields, nil); !services.IsUnavailable(MapError(err)) {
				t.Errorf("in a black hole: %v, want UNAVAILABLE", err)
			}
		})
	}
	ended := make(chan struct{})
	go func() { readers.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the reads hang")
	}
}

// After a batch that panics, other reads must be able to lead batches.
func TestFieldReadsOutliveAPanic(t *testing.T) {
	c, fields := connect(t, Options{URL: redistest.NewServer(t).URL()}), NewFields([]string{"a"})
	broken := &panickingHook{}
	c.redis.AddHook(broken)
	for range 3 * maxRunningFieldBatches {
		broken.on = true
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the batch did not panic")
				}
			}()
			_, _ = c.ReadFields(t.Context(), "k", fields, nil)
		}()
		broken.on = false
		if _, err := c.ReadFields(t.Context(), "k", fields, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// panickingHook is a hook that panics in each pipeline while on is true.
type panickingHook struct{ on bool }

func (*panickingHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*panickingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (p *panickingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if p.on {
			panic("in a batch")
		}
		return next(ctx, cmds)
	}
}

// Replies of both protocols are read, with the fields in the order of the names or in another one, and with fields that were not
// asked for.
func TestRepliesOfHashes(t *testing.T) {
	fields := NewFields([]string{"a", "bc", "d"})
	for _, c := range []struct {
		reply string
		want  []string
	}{
		{"*0\r\n", []string{AbsentField, AbsentField, AbsentField}},
		{"%0\r\n", []string{AbsentField, AbsentField, AbsentField}},
		{"*2\r\n$2\r\nbc\r\n$0\r\n\r\n", []string{AbsentField, "", AbsentField}},
		{"*6\r\n$1\r\na\r\n$1\r\n1\r\n$2\r\nbc\r\n$3\r\n2\r\n\r\n$1\r\nd\r\n$1\r\n3\r\n", []string{"1", "2\r\n", "3"}},
		{"%3\r\n$1\r\nd\r\n$1\r\n3\r\n$1\r\na\r\n$1\r\n1\r\n$2\r\nbc\r\n$1\r\n2\r\n", []string{"1", "2", "3"}},
		{"*6\r\n$1\r\nx\r\n$1\r\n9\r\n$2\r\nbc\r\n$1\r\n2\r\n$1\r\ny\r\n$1\r\n8\r\n", []string{AbsentField, "2", AbsentField}},
	} {
		got, err := fields.parse([]string{"before"}, []byte(c.reply))
		if err != nil || !slices.Equal(got, append([]string{"before"}, c.want...)) {
			t.Errorf("%q is read as %q, %v", c.reply, got, err)
		}
	}
}

func TestRepliesOfFewFields(t *testing.T) {
	fields := NewFewFields([]string{"a", "b", "c"})
	good := "*3\r\n$1\r\na\r\n$-1\r\n$0\r\n\r\n"
	if got, err := fields.parse(nil, []byte(strings.Replace(good, "$-1", "_", 1))); err != nil || !slices.Equal(got, []string{"a", AbsentField, ""}) {
		t.Errorf("nothing in the newer protocol: %q, %v", got, err)
	}
	if got, err := fields.parse([]string{"before"}, []byte(good)); err != nil || !slices.Equal(got, []string{"before", "a", AbsentField, ""}) {
		t.Errorf("%q, %v", got, err)
	}
	for end := range len(good) {
		if got, err := fields.parse(nil, []byte(good[:end])); err == nil {
			t.Errorf("%q is read as %q", good[:end], got)
		}
	}
	for _, reply := range []string{good + "x", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", ":3\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n", strings.Replace(good, "$1", "$x", 1), strings.Replace(good, "$1", "$9", 1)} {
		if got, err := fields.parse(nil, []byte(reply)); err == nil {
			t.Errorf("%q is read as %q", reply, got)
		}
	}
}

func TestRepliesThatAreNotHashes(t *testing.T) {
	fields := NewFields([]string{"a", "b"})
	good := "*4\r\n$1\r\na\r\n$0\r\n\r\n$1\r\nb\r\n$1\r\nc\r\n"
	if got, err := fields.parse(nil, []byte(good)); err != nil || !slices.Equal(got, []string{"", "c"}) {
		t.Errorf("%q, %v", got, err)
	}
	for end := range len(good) {
		if got, err := fields.parse(nil, []byte(good[:end])); err == nil {
			t.Errorf("%q is read as %q", good[:end], got)
		}
	}
	for _, reply := range []string{
		good + "x", ":3\r\n", "*1\r\n$1\r\na\r\n", "*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n", "*2\r\n$1\r\na\r\n$-1\r\n", "*-1\r\n", "*2\r\n:1\r\n:2\r\n", "%2\r\n$1\r\na\r\n$1\r\n1\r\n",
		strings.Replace(good, "$1", "$x", 1), strings.Replace(good, "$1", "$9", 1), strings.Replace(good, "*4", "*2", 1), strings.Replace(good, "*4", "*6", 1),
	} {
		if got, err := fields.parse(nil, []byte(reply)); err == nil {
			t.Errorf("%q is read as %q", reply, got)
		}
	}
	if _, err := fields.parse(nil, []byte("-LOADING Redis is loading\r\n")); !services.IsUnavailable(MapError(err)) || err.Error() != "LOADING Redis is loading" {
		t.Errorf("a refusal: %v", err)
	}
}
