package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"tidings/services"
	"tidings/services/redis/redistest"
)

// Ranges of sorted sets and fields of hashes are read together, whatever the server.
func TestReadEachReadsRanges(t *testing.T) {
	eachRedisMode(t, func(t *testing.T, mode, url string) {
		c := connect(t, Options{URL: url})
		fields, least, greatest, below := NewOneField("a"), NewRange(0, 0, false), NewRange(0, 2, true), NewTextRange("(3", "[1", 5)
		var reads []KeyRead
		var want [][]string
		for i := range 40 {
			hash, set := fmt.Sprintf("{u%d}:h", i), fmt.Sprintf("{u%d}:z", i)
			reads = append(reads, KeyRead{hash, fields}, KeyRead{set, least}, KeyRead{set, greatest}, KeyRead{set, below})
			count := i % 5
			for member := range count {
				if err := c.Commands().ZAdd(t.Context(), set, redis.Z{Member: fmt.Sprint(member)}).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Commands().HSet(t.Context(), hash, "a", i).Err(); err != nil {
				t.Fatal(err)
			}
			members := []string{"3", "2", "1", "0"}[4-count:]
			want = append(want, []string{fmt.Sprint(i)}, []string{"0"}[:min(count, 1)], members[:min(count, 3)], []string{"2", "1"}[2-min(max(count-1, 0), 2):])
		}
		check := func(what string) {
			t.Helper()
			var got [][]string
			err := c.ReadEach(t.Context(), reads, func(_ int, texts []string) { got = append(got, slices.Clone(texts)) })
			if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("%s: %q, %v\nwant %q", what, got, err, want)
			}
		}
		check("at first")
		check("with commands that were used")
		if err := c.Commands().Set(t.Context(), "{u4}:z", "a", 0).Err(); err != nil {
			t.Fatal(err)
		}
		clear(want[4*4+1 : 4*4+4])
		check("after a key of the wrong type")
	})
}

func TestRepliesOfRanges(t *testing.T) {
	whole := NewRange(0, -1, false)
	good := "*3\r\n$1\r\na\r\n$0\r\n\r\n$4\r\n\r\nbc\r\n"
	if got, err := whole.parse([]string{"before"}, []byte(good)); err != nil || !slices.Equal(got, []string{"before", "a", "", "\r\nbc"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := whole.parse(nil, []byte("*0\r\n")); err != nil || len(got) > 0 {
		t.Errorf("no members: %q, %v", got, err)
	}
	for end := range len(good) {
		if got, err := whole.parse(nil, []byte(good[:end])); err == nil {
			t.Errorf("%q is read as %q", good[:end], got)
		}
	}
	for _, reply := range []string{good + "x", "*-1\r\n", "$-1\r\n", ":3\r\n", "*1\r\n$-1\r\n", "*1\r\n:1\r\n", strings.Replace(good, "*3", "*2", 1), strings.Replace(good, "*3", "*4", 1)} {
		if got, err := whole.parse(nil, []byte(reply)); err == nil {
			t.Errorf("%q is read as %q", reply, got)
		}
	}
	if _, err := whole.parse(nil, []byte("-LOADING Redis is loading\r\n")); !services.IsUnavailable(MapError(err)) {
		t.Errorf("a refusal: %v", err)
	}
}

// A read that a server refuses is an error of the whole call, on a cluster too.
func TestRangesReturnRefusals(t *testing.T) {
	for kind, url := range map[string]string{"redis": redistest.Redis(t), "cluster": redistest.Cluster(t)} {
		c := connect(t, Options{URL: url})
		if err := forbidCommand(t, c, "zrevrange"); err != nil {
			t.Fatal(err)
		}
		err := c.ReadEach(t.Context(), []KeyRead{{"{1}one", NewRange(0, 1, true)}}, func(int, []string) { t.Errorf("%s: it was read", kind) })
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
