package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidings/tests/world"
)

const (
	maxLoadPosts = 250 // how many posts a userLoad publishes at most: fewer than a home feed keeps, so that all counts are exact
)

// userLoad runs six users of a server, each in a goroutine, who publish, follow, like, and read badges and feeds at random. It records
// their acknowledged mutations in the ledger. The outcome of each action is known under any faults, because each follow, read position,
// post and like is changed by one goroutine only.
type userLoad struct {
	ledger
	tb                testing.TB
	serverURL         func() string          // returns the server's present address
	retriesUnanswered bool                   // a request without an answer is sent again, under the same idempotency key
	keyPrefix         string                 // the prefix of this load's keys of users and idempotency keys
	people            []string               // the keys of the users
	publishLocks      map[string]*sync.Mutex // by author; keeps a follow of the author from beginning while the author publishes

	ackedMutations      atomic.Int64 // how many mutations were acknowledged
	idempotencyKeyCount atomic.Int64 // how many idempotency keys were made
	stop                func()       // ends the load once each person's request in progress has ended

	recordedFaultsMu sync.Mutex // guards recordedFaults
	recordedFaults   []error    // the first ten faults: wrong or missing answers
}

// newUserLoad makes a load whose users do not act yet. url returns the server's present address. retries sets retriesUnanswered.
func newUserLoad(tb testing.TB, retries bool, url func() string) *userLoad {
	l := &userLoad{
		tb: tb, serverURL: url, retriesUnanswered: retries, publishLocks: map[string]*sync.Mutex{}, stop: func() {},
		keyPrefix: fmt.Sprintf("l%08x", rand.Uint32()),
		ledger:    ledger{posts: map[string]*ledgerPost{}, byAuthor: map[string][]*ledgerPost{}, newestPostAtFollow: map[followEdge]string{}, seenUpTo: map[string]string{}},
	}
	for i := range 6 {
		person := fmt.Sprintf("%s-%c", l.keyPrefix, 'a'+i)
		l.people, l.publishLocks[person] = append(l.people, person), &sync.Mutex{}
		l.visitAs(person)
	}
	return l
}

// start starts the users of the load. The end of the test calls stop if the test does not.
func (l *userLoad) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	for i, person := range l.people {
		working.Go(func() { l.actUntilDone(ctx, person, l.people[(i+1)%len(l.people)]) })
	}
	l.stop = sync.OnceFunc(func() {
		cancel()
		working.Wait()
	})
	l.tb.Cleanup(l.stop)
}

// actUntilDone does a random action of a person every 10 ms until ctx ends. The person likes only posts of the neighbour.
func (l *userLoad) actUntilDone(ctx context.Context, person, neighbour string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.doRandomAction(person, neighbour)
		}
	}
}

// waitForMutations waits until this many more mutations are acknowledged.
func (l *userLoad) waitForMutations(more int64) {
	l.tb.Helper()
	goal := l.ackedMutations.Load() + more
	world.EventuallySucceeds(l.tb, world.RequestTimeout, func() error {
		if err := l.faults(); err != nil {
			l.tb.Fatal(err)
		}
		if had := l.ackedMutations.Load(); had < goal {
			return fmt.Errorf("the load stands at %d of %d mutations", had, goal)
		}
		return nil
	})
}

// recordFault records that an answer of the server was wrong or missing.
func (l *userLoad) recordFault(format string, args ...any) {
	l.recordedFaultsMu.Lock()
	defer l.recordedFaultsMu.Unlock()
	if len(l.recordedFaults) < 10 {
		l.recordedFaults = append(l.recordedFaults, fmt.Errorf(format, args...))
	}
}

// faults returns the recorded faults as one error; nil if there are none.
func (l *userLoad) faults() error {
	l.recordedFaultsMu.Lock()
	defer l.recordedFaultsMu.Unlock()
	return errors.Join(l.recordedFaults...)
}

// doRandomAction does one random action of a person. Only this goroutine follows, marks or deletes as this person, and only the neighbour
// before them likes their posts. So the outcome of each action is known.
func (l *userLoad) doRandomAction(person, neighbour string) {
	switch dice := rand.IntN(100); {
	case dice < 30:
		l.publish(person)
	case dice < 37:
		l.deletePost(person)
	case dice < 55:
		l.toggleFollow(person)
	case dice < 72:
		l.toggleLike(person, neighbour)
	case dice < 82:
		l.markFeedSeen(person)
	case dice < 92:
		l.checkBadges(person)
	default:
		l.checkFeedPage(person)
	}
}

// publish publishes a post of the person, unless the load has maxLoadPosts already.
func (l *userLoad) publish(person string) {
	if l.countPosts() >= maxLoadPosts {
		return
	}
	l.publishLocks[person].Lock()
	defer l.publishLocks[person].Unlock()
	var data struct {
		PublishPost struct{ Post struct{ ID string } }
	}
	if l.mutate(person, `mutation($key:String){publishPost(input:{body:"news",idempotencyKey:$key}){post{id}}}`, nil, &data) == "" {
		l.recordPost(person, data.PublishPost.Post.ID)
	}
}

// deletePost deletes a random post of the person.
func (l *userLoad) deletePost(person string) {
	post := l.pickRandomPost(person, func(p *ledgerPost) bool { return !p.deleted })
	if post == nil {
		return
	}
	l.withLock(func() { post.deleted = true }) // from here on a like may fail because the post is deleted
	l.wantCode("", l.mutate(person, `mutation($key:String,$p:ID!){deletePost(input:{postId:$p,idempotencyKey:$key}){postId}}`,
		map[string]any{"p": post.id}, nil), "deletePost")
}

// toggleFollow lets a person follow somebody, or unfollow somebody that they follow.
func (l *userLoad) toggleFollow(person string) {
	author := l.people[rand.IntN(len(l.people))]
	if author == person {
		return
	}
	l.publishLocks[author].Lock()
	defer l.publishLocks[author].Unlock()
	verb := "follow"
	if l.follows(person, author) {
		verb = "unfollow"
	}
	got := l.mutate(person, `mutation($key:String,$u:ID!){r:`+verb+`(input:{userId:$u,idempotencyKey:$key}){user{id}}}`,
		map[string]any{"u": "user:" + author}, nil)
	l.wantCode("", got, verb)
	if got == "" {
		l.recordFollow(person, author, verb == "follow")
	}
}

// toggleLike lets a person like a post of the neighbour, or undo the like.
func (l *userLoad) toggleLike(person, neighbour string) {
	post := l.pickRandomPost(neighbour, func(*ledgerPost) bool { return true })
	if post == nil {
		return
	}
	verb := "likePost"
	if post.liked {
		verb = "unlikePost"
	}
	got := l.mutate(person, `mutation($key:String,$p:ID!){r:`+verb+`(input:{postId:$p,idempotencyKey:$key}){badges{version}}}`,
		map[string]any{"p": post.id}, nil)
	gone := false
	l.withLock(func() { gone = post.deleted })
	if got == "NOT_FOUND" && gone {
		return
	}
	l.wantCode("", got, verb)
	l.withLock(func() { post.liked = verb == "likePost" })
}

// markFeedSeen lets a person mark the feed as seen up to somebody's post.
func (l *userLoad) markFeedSeen(person string) {
	post := l.pickRandomPost(l.people[rand.IntN(len(l.people))], func(*ledgerPost) bool { return true })
	if post == nil {
		return
	}
	got := l.mutate(person, `mutation($key:String,$p:ID){markHomeFeedSeen(input:{upTo:$p,idempotencyKey:$key}){badges{version}}}`,
		map[string]any{"p": post.id}, nil)
	l.wantCode("", got, "markHomeFeedSeen")
	if got == "" {
		l.withLock(func() { l.seenUpTo[person] = max(l.seenUpTo[person], post.id) })
	}
}

// checkBadges reads a person's badges and checks the rules that hold at any moment, such as that the total is the sum of its parts.
func (l *userLoad) checkBadges(person string) {
	got, err := l.badgesOf(person)
	if err == nil {
		err = got.CheckInvariants()
	} else if l.retriesUnanswered {
		return // the server is down
	}
	if err != nil {
		l.recordFault("badges of %s: %w", person, err)
	}
}

// checkFeedPage reads the first page of a person's feed and checks that it is in order and lists no post twice.
func (l *userLoad) checkFeedPage(person string) {
	ids, err := l.feedPageOf(person, nil)
	if err != nil {
		if !l.retriesUnanswered {
			l.recordFault("feed of %s: %w", person, err)
		}
		return
	}
	for i := 1; i < len(ids.Ids()); i++ {
		if ids.Ids()[i] >= ids.Ids()[i-1] {
			l.recordFault("feed of %s is not in order: %v", person, ids.Ids())
		}
	}
}

// wantCode records a fault unless the code of an answer is want.
func (l *userLoad) wantCode(want, got, what string) {
	if got != want {
		l.recordFault("%s: code %q, want %q", what, got, want)
	}
}

// mutate sends a mutation with an idempotency key of its own and returns the error code of the answer, "" for a success. If there is no
// answer, or the code is UNAVAILABLE, it sends the mutation again for up to world.RequestTimeout if retriesUnanswered is set. In the end
// it records a fault.
func (l *userLoad) mutate(as, query string, variables map[string]any, into any) (code string) {
	if variables == nil {
		variables = map[string]any{}
	}
	variables["key"] = fmt.Sprintf("%s-%d", l.keyPrefix, l.idempotencyKeyCount.Add(1))
	ctx, cancel := context.WithTimeout(context.Background(), world.RequestTimeout)
	defer cancel()
	for {
		got, err := world.SendRequest(ctx, l.serverURL(), as, query, variables)
		switch {
		case err == nil && len(got.Errors) == 0:
			l.ackedMutations.Add(1)
			if into != nil {
				if err := json.Unmarshal(got.Data, into); err != nil {
					l.recordFault("%s: %w", got.Data, err)
				}
			}
			return ""
		case err == nil && got.ErrorCode() != "UNAVAILABLE":
			return got.ErrorCode()
		case !l.retriesUnanswered || ctx.Err() != nil:
			l.recordFault("%s as %s was not acknowledged: %v %v", query, as, got.Errors, err)
			return "UNAVAILABLE"
		}
		timer := time.NewTimer(20 * time.Millisecond) // until the next try
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// badgesOf reads a person's badges.
func (l *userLoad) badgesOf(person string) (world.Badges, error) {
	var data struct{ Viewer struct{ Badges world.Badges } }
	err := world.Ask(l.serverURL(), person, `{viewer{badges{`+world.BadgeFields+`}}}`, nil, &data)
	return data.Viewer.Badges, err
}

// feedPageOf reads a page of 50 of a person's feed.
func (l *userLoad) feedPageOf(person string, after *string) (world.FeedPage, error) {
	var data struct {
		Viewer struct{ HomeFeed world.FeedPage }
	}
	err := world.Ask(l.serverURL(), person, `query($after:String){viewer{homeFeed(first:50,after:$after){edges{node{id}} pageInfo{hasNextPage endCursor}}}}`,
		map[string]any{"after": after}, &data)
	return data.Viewer.HomeFeed, err
}

// wholeFeedOf reads a person's whole feed.
func (l *userLoad) wholeFeedOf(person string) (ids []string, err error) {
	for after := (*string)(nil); ; {
		page, err := l.feedPageOf(person, after)
		if err != nil {
			return nil, err
		}
		ids = append(ids, page.Ids()...)
		if after = page.PageInfo.EndCursor; !page.PageInfo.HasNextPage {
			return ids, nil
		}
	}
}

// compareWithLedger returns an error if the server differs from the ledger. The load must have stopped.
func (l *userLoad) compareWithLedger() error {
	for _, person := range l.people {
		got, err := l.badgesOf(person)
		if err != nil {
			return err
		}
		if err := l.compareBadges(person, got); err != nil {
			return err
		}
		ids, err := l.wholeFeedOf(person)
		if err != nil {
			return err
		}
		if want := l.expectedFeed(person); !slices.Equal(ids, want) {
			return fmt.Errorf("%s: the feed has %d posts, want %d: %v, want %v", person, len(ids), len(want), ids, want)
		}
	}
	return nil
}

// compareBadges returns an error if a person's badges differ from the ledger.
func (l *userLoad) compareBadges(person string, got world.Badges) error {
	if err := got.CheckInvariants(); err != nil {
		return err
	}
	if want := l.countUnread(person); got.HomeFeed.Value != want || got.HomeFeed.Precision != "EXACT" {
		return fmt.Errorf("%s: home feed is %+v, want %d", person, got.HomeFeed, want)
	}
	if want := l.countLikedPosts(person); got.Notifications.Like.Value != want || got.Notifications.Like.Precision != "EXACT" {
		return fmt.Errorf("%s: likes are %+v, want %d", person, got.Notifications.Like, want)
	}
	return nil
}

// stopAndWaitUntilLedgerMatches stops the load, and waits until the server and every open subscription show what follows from the ledger.
// It fails the test if the load recorded a fault.
func (l *userLoad) stopAndWaitUntilLedgerMatches(within time.Duration, watches ...*world.BadgeSubscription) {
	l.tb.Helper()
	l.stop()
	world.EventuallySucceeds(l.tb, within, l.compareWithLedger)
	for _, w := range watches {
		w.WaitCounts(l.tb, within, l.countUnread(w.Person), l.countLikedPosts(w.Person))
	}
	if err := l.faults(); err != nil {
		l.tb.Fatal(err)
	}
}
