package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// fakeLikeServer is a server that takes likes, and whose badges count the liked posts.
type fakeLikeServer struct {
	likedPairs            map[string]bool // the likes: a user and a post
	likedPosts            map[string]bool // the posts with a like
	badgeExcess           int             // by how many posts its badges are too high
	duplicateLikeReceived bool            // whether a user liked a post twice
}

// answer records the likes of a request, and answers ingest, the query of the jobs or the query of the badges.
func (l *fakeLikeServer) answer(q receivedRequest) string {
	for _, e := range q.Variables.Events {
		do, _ := e["do"].(map[string]any)
		if input, is := do["likePost"].(map[string]any); is {
			pair := fmt.Sprint(e["as"], input["postId"])
			l.duplicateLikeReceived = l.duplicateLikeReceived || l.likedPairs[pair]
			l.likedPairs[pair], l.likedPosts[fmt.Sprint(input["postId"])] = true, true
		}
	}
	switch {
	case len(q.Variables.Events) > 0:
		return ingestAnswer(q)
	case strings.Contains(q.Query, "jobs"):
		return `{"data":{"admin":{"jobs":{"waiting":0,"dead":0}}}}`
	}
	return fmt.Sprintf(`{"data":{"viewer":{"badges":{"notifications":{"like":{"value":%d}}}}}}`, len(l.likedPosts)+l.badgeExcess)
}

// newTestLikedAuthor returns a likedAuthor with posts, and its server.
func newTestLikedAuthor(t *testing.T, likers, posts int) (*likedAuthor, *fakeLikeServer) {
	t.Helper()
	l := &fakeLikeServer{likedPairs: map[string]bool{}, likedPosts: map[string]bool{}}
	answers := make(chan struct{}, 1) // lets the server answer one request at a time
	h := &likedAuthor{likerCount: likers, api: startStubAPI(t, func(q receivedRequest) string {
		answers <- struct{}{}
		defer func() { <-answers }()
		return l.answer(q)
	})}
	if err := h.publishPosts(t.Context(), posts); err != nil || len(h.postIDs) != posts {
		t.Fatalf("%d posts, %v", len(h.postIDs), err)
	}
	return h, l
}

func TestEveryLikeIsNew(t *testing.T) {
	h, l := newTestLikedAuthor(t, 10_000, 20)
	ctx, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer end()
	result, err := h.measureLikes(func() error { return h.sendLikes(ctx, 0) })
	if err != nil {
		t.Fatal(err)
	}
	if l.duplicateLikeReceived || h.acceptedLikes.Load() == 0 || int64(len(l.likedPairs)) != h.acceptedLikes.Load() || !(result.ratePerSecond > 0) {
		t.Errorf("%d likes of %d pairs, one twice: %v, %+v", h.acceptedLikes.Load(), len(l.likedPairs), l.duplicateLikeReceived, result)
	}
	if _, err := h.measureSettlingTime(t.Context()); err != nil || len(l.likedPosts) != 20 {
		t.Errorf("%d posts, %v", len(l.likedPosts), err)
	}
	l.badgeExcess = 1
	if _, err := h.measureSettlingTime(t.Context()); err == nil {
		t.Error("a wrong number is taken for right")
	}
}

func TestLikesAreSpacedOut(t *testing.T) {
	h, _ := newTestLikedAuthor(t, 10_000, 20)
	ctx, end := context.WithTimeout(t.Context(), 225*time.Millisecond)
	defer end()
	// A batch of 500 likes is due every 100 ms: within 225 ms at 0, 100 and 200 ms.
	if err := h.sendLikes(ctx, 5000); err != nil || h.acceptedLikes.Load() > 3*likesPerCall || h.acceptedLikes.Load() < likesPerCall {
		t.Errorf("%d likes in 225 ms, %v", h.acceptedLikes.Load(), err)
	}
}

func TestSendLikesFailsOnceEveryPostIsLiked(t *testing.T) {
	h, _ := newTestLikedAuthor(t, 30, 20)
	if err := h.sendLikes(t.Context(), 0); err == nil || h.acceptedLikes.Load() != likesPerCall {
		t.Errorf("%d likes of 600, %v", h.acceptedLikes.Load(), err)
	}
}

func TestBystandersAreSeededAndReported(t *testing.T) {
	w := newEventCountingServer(`{"data":{"viewer":{}}}`)
	if err := seedBystanders(t.Context(), startStubAPI(t, w.answer)); err != nil {
		t.Fatal(err)
	}
	if w.eventCountByKind["follow"] != bystanderCount*followsPerBystander || w.eventCountByKind["publishPost"] != bystanderAuthorPosts || len(w.queryCountByToken) != bystanderCount {
		t.Errorf("seeded %v, visited %d", w.eventCountByKind, len(w.queryCountByToken))
	}
	lines := bystandersLines("rush", bystanderResults{
		before: series{{ratePerSecond: 900, latencyP50: 2 * time.Millisecond, latencyP99: 10 * time.Millisecond}},
		during: series{{ratePerSecond: 300, latencyP50: 3 * time.Millisecond, latencyP99: 16 * time.Millisecond}}, withBusyProcessors: series{{ratePerSecond: 600, latencyP50: 2 * time.Millisecond, latencyP99: 8 * time.Millisecond}},
	})
	for i, want := range []struct {
		value   float64
		verdict string
	}{{1.5, "yes"}, {1.6, "no"}, {3, "no"}, {1.5, ""}, {2, ""}, {2, ""}} {
		if l := lines[i]; l.value != want.value || l.goal.verdict(l.value) != want.verdict {
			t.Errorf("%+v, want %+v", l, want)
		}
	}
}

// The bystanders' client is a process of its own. It reports what was answered, and why nothing was.
func TestBystandersLoadFromAnotherProcess(t *testing.T) {
	t.Setenv(childModeVariable, bystandersArgument)
	b := &bench{options: options{turnSeconds: 0.1}}
	a := startStubAPI(t, func(receivedRequest) string { return `{"data":{"viewer":{}}}` })
	address := strings.TrimSuffix(strings.TrimPrefix(a.url, "http://"), "/graphql")
	result, err := b.loadBystanders(t.Context(), address, os.Getpid())
	if err != nil || !(result.ratePerSecond > 0) || result.latencyP50 <= 0 || result.latencyP99 < result.latencyP50 {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := b.loadBystanders(t.Context(), "127.0.0.1:1", os.Getpid()); err == nil { // no server listens there
		t.Error("a server that is not there answers")
	}
}

func TestLoadDuringRushEndsTheRush(t *testing.T) {
	ended := false
	_, err := loadDuringRush(t.Context(), func(context.Context) (sample, error) { return sample{}, errors.New("no server") }, func(ctx context.Context) error {
		<-ctx.Done()
		ended = true
		return nil
	})
	if err == nil || !ended {
		t.Errorf("the rush has ended: %v, %v", ended, err)
	}
}
