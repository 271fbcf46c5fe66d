package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// likeServer takes likes, and answers with the number of liked posts.
type likeServer struct {
	pairs map[string]bool // the likes: a user and a post
	posts map[string]bool // the posts with a like
	wrong int             // by how many posts its badges are too high
	twice bool            // whether a user liked a post twice
}

func (l *likeServer) answer(q question) string {
	for _, e := range q.Variables.Events {
		do, _ := e["do"].(map[string]any)
		if input, is := do["likePost"].(map[string]any); is {
			pair := fmt.Sprint(e["as"], input["postId"])
			l.twice = l.twice || l.pairs[pair]
			l.pairs[pair], l.posts[fmt.Sprint(input["postId"])] = true, true
		}
	}
	switch {
	case len(q.Variables.Events) > 0:
		return results(q)
	case strings.Contains(q.Query, "jobs"):
		return `{"data":{"admin":{"jobs":{"waiting":0,"dead":0}}}}`
	}
	return fmt.Sprintf(`{"data":{"viewer":{"badges":{"notifications":{"like":{"value":%d}}}}}}`, len(l.posts)+l.wrong)
}

// newHot returns a hotRecipient with posts, and its server.
func newHot(t *testing.T, likers, posts int) (*hotRecipient, *likeServer) {
	t.Helper()
	l := &likeServer{pairs: map[string]bool{}, posts: map[string]bool{}}
	answers := make(chan struct{}, 1) // one at a time
	h := &hotRecipient{likers: likers, api: stubAPI(t, func(q question) string {
		answers <- struct{}{}
		defer func() { <-answers }()
		return l.answer(q)
	})}
	if err := h.post(t.Context(), posts); err != nil || len(h.posts) != posts {
		t.Fatalf("%d posts, %v", len(h.posts), err)
	}
	return h, l
}

func TestEveryLikeIsNew(t *testing.T) {
	h, l := newHot(t, 10_000, 20)
	ctx, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer end()
	result, err := h.measure(func() error { return h.like(ctx, 0) })
	if err != nil {
		t.Fatal(err)
	}
	if l.twice || h.taken.Load() == 0 || int64(len(l.pairs)) != h.taken.Load() || !(result.rate > 0) {
		t.Errorf("%d likes of %d pairs, one twice: %v, %+v", h.taken.Load(), len(l.pairs), l.twice, result)
	}
	if _, err := h.settle(t.Context()); err != nil || len(l.posts) != 20 {
		t.Errorf("%d posts, %v", len(l.posts), err)
	}
	l.wrong = 1
	if _, err := h.settle(t.Context()); err == nil {
		t.Error("a wrong number is taken for right")
	}
}

func TestLikesAreSpacedOut(t *testing.T) {
	h, _ := newHot(t, 10_000, 20)
	ctx, end := context.WithTimeout(t.Context(), 225*time.Millisecond)
	defer end()
	// A batch of 500 likes is due every 100 ms: within 225 ms at 0, 100 and 200 ms.
	if err := h.like(ctx, 5000); err != nil || h.taken.Load() > 3*likesPerCall || h.taken.Load() < likesPerCall {
		t.Errorf("%d likes in 225 ms, %v", h.taken.Load(), err)
	}
}

func TestLikesRunOut(t *testing.T) {
	h, _ := newHot(t, 30, 20)
	if err := h.like(t.Context(), 0); err == nil || h.taken.Load() != likesPerCall {
		t.Errorf("%d likes of 600, %v", h.taken.Load(), err)
	}
}

func TestOthers(t *testing.T) {
	w := newCountingServer(`{"data":{"viewer":{}}}`)
	if err := seedOthers(t.Context(), stubAPI(t, w.answer)); err != nil {
		t.Fatal(err)
	}
	if w.done["follow"] != othersCount*othersFollow || w.done["publishPost"] != othersPosts || len(w.visited) != othersCount {
		t.Errorf("seeded %v, visited %d", w.done, len(w.visited))
	}
	lines := othersLines("rush", rushResults{
		before: series{{rate: 900, p50: 2 * time.Millisecond, p99: 10 * time.Millisecond}},
		during: series{{rate: 300, p50: 3 * time.Millisecond, p99: 16 * time.Millisecond}}, computing: series{{rate: 600, p99: 8 * time.Millisecond}},
	})
	for i, want := range []struct {
		value   float64
		verdict string
	}{{1.5, "yes"}, {1.6, "no"}, {3, "no"}, {2, ""}, {2, ""}} {
		if l := lines[i]; l.value != want.value || l.goal.verdict(l.value) != want.verdict {
			t.Errorf("%+v, want %+v", l, want)
		}
	}
}

func TestLoadDuringEndsTheRush(t *testing.T) {
	target := target{address: "127.0.0.1:1"} // no server listens there
	ended := false
	b := &bench{options: options{seconds: 0.1}}
	_, err := b.loadDuring(t.Context(), target, func(ctx context.Context) error {
		<-ctx.Done()
		ended = true
		return nil
	})
	if err == nil || !ended {
		t.Errorf("the rush has ended: %v, %v", ended, err)
	}
}
