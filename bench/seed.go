package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The data of most rows: authors, readers who follow 10, 200 or 2,000 of them, and watchers who all follow one user, the star.
const (
	unreadPostsPerReader = 50 // unread posts in the feed of every reader
	likedPostsPerReader  = 3  // posts of each reader that were liked
	oldPostsPerAuthor    = 2  // posts of each of the first 200 authors from before they had followers
	pageSize             = 20 // entries of a page
)

// followCounts are the numbers of people that readers follow.
var followCounts = []int{10, 200, 2000}

// The keys of the users of most rows: authors, readers and watchers.
func authorKey(i int) string { return "author-" + strconv.Itoa(i) } // the key of the i-th author
func readerKey(follows, i int) string { // the key of the i-th of the readers who follow so many authors
	return "reader-" + strconv.Itoa(follows) + "-" + strconv.Itoa(i)
}
func watcherKey(i int) string { return "watcher-" + strconv.Itoa(i) } // the key of the i-th user who follows the star and has a socket

// starKey is the key of the user that all watchers follow.
const starKey = "star"

// seedServer makes authors, readers and watchers on a fresh server through its public API, with follows, posts and likes. readers is the
// number of readers for each number in followCounts.
func seedServer(ctx context.Context, a *apiClient, readers, watchers int, say func(string, ...any)) error {
	most := followCounts[len(followCounts)-1]
	var events []ingestEvent
	for i := range most {
		events = append(events, profileEvent(authorKey(i), "Author "+strconv.Itoa(i)))
	}
	for turn := range oldPostsPerAuthor {
		for i := range followCounts[1] {
			events = append(events, publishEvent(authorKey(i), postBody(turn*followCounts[1]+i)))
		}
	}
	say("seeding %d authors and their posts", most)
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	events = nil
	for _, follows := range followCounts {
		for r := range readers {
			for i := range follows {
				events = append(events, followEvent(readerKey(follows, r), authorKey(i)))
			}
		}
	}
	for i := range watchers {
		events = append(events, followEvent(watcherKey(i), starKey))
	}
	say("seeding %d follows", len(events))
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	if err := a.waitForJobs(ctx); err != nil {
		return err
	}
	say("seeding what is new: %d posts, %d likes for each reader", unreadPostsPerReader, likedPostsPerReader)
	return seedUnreadPostsAndLikes(ctx, a, readers)
}

// seedUnreadPostsAndLikes gives each reader the same unread posts and likes.
func seedUnreadPostsAndLikes(ctx context.Context, a *apiClient, readers int) error {
	// Posts are pushed only to users who have visited.
	if err := visit(ctx, a, allReaderKeys(readers)); err != nil {
		return err
	}
	var events []ingestEvent
	for _, key := range allReaderKeys(readers) {
		for i := range likedPostsPerReader {
			events = append(events, publishEvent(key, "A post of my own, number "+strconv.Itoa(i)))
		}
	}
	posts, err := a.ingest(ctx, events)
	if err != nil {
		return err
	}
	events = nil
	for _, post := range posts {
		events = append(events, likeEvent(authorKey(0), post))
	}
	for i := range unreadPostsPerReader {
		events = append(events, publishEvent(authorKey(i%followCounts[0]), postBody(i)))
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	return a.waitForJobs(ctx)
}

// checkSeeded checks that the readers see the seeded data: with empty feeds, every program would look faster than it is.
func checkSeeded(ctx context.Context, a *apiClient, keys []string) error {
	for _, key := range keys {
		var data struct {
			Viewer struct {
				Badges struct {
					HomeFeed      struct{ Value int }
					Notifications struct{ Like struct{ Value int } }
				}
				HomeFeed struct{ Edges []struct{ Cursor string } }
			}
		}
		query := `{ viewer { badges { homeFeed { value } notifications { like { value } } } homeFeed(first: 20) { edges { cursor } } } }`
		if err := a.doGraphQL(ctx, "dev:"+key, query, nil, &data); err != nil {
			return fmt.Errorf("user %s: %w", key, err)
		}
		badges := data.Viewer.Badges
		if got := len(data.Viewer.HomeFeed.Edges); badges.HomeFeed.Value != unreadPostsPerReader || badges.Notifications.Like.Value != likedPostsPerReader || got != pageSize {
			return fmt.Errorf("user %s has %d new posts, %d likes and a page of %d; seeded were %d, %d and %d",
				key, badges.HomeFeed.Value, badges.Notifications.Like.Value, got, unreadPostsPerReader, likedPostsPerReader, pageSize)
		}
	}
	return nil
}

// postBody returns the text of post number i: about 140 characters, as usual posts have.
func postBody(i int) string {
	return fmt.Sprintf("Number %d. Today the ferry left late, the harbour was full of boats, and nobody on the pier could say when the next one would come back.", i)
}

// allReaderKeys returns the keys of all readers. readers is how many there are for each number in followCounts.
func allReaderKeys(readers int) (keys []string) {
	for _, follows := range followCounts {
		keys = append(keys, readerKeysFollowing(follows, readers)...)
	}
	return keys
}

// readerKeysFollowing returns the keys of the readers who follow as many authors as follows says. readers is how many there are.
func readerKeysFollowing(follows, readers int) (keys []string) {
	for i := range readers {
		keys = append(keys, readerKey(follows, i))
	}
	return keys
}

// tokens returns the tokens of users by their keys.
func tokens(keys []string) (userTokens []string) {
	for _, key := range keys {
		userTokens = append(userTokens, "dev:"+key)
	}
	return userTokens
}

// visit asks for the badges, the feed and the ID as each of the users, so that all their data is in Redis.
func visit(ctx context.Context, a *apiClient, keys []string) error {
	for _, key := range keys {
		for _, query := range []string{badgeQuery, feedQuery, `{ viewer { user { id } } }`} {
			var data json.RawMessage
			if err := a.doGraphQL(ctx, "dev:"+key, query, nil, &data); err != nil {
				return fmt.Errorf("user %s: %w", key, err)
			}
		}
	}
	return nil
}

// warmProfiles reads users by their IDs, a hundred at a time, so that the server copies their profiles to Redis.
func warmProfiles(ctx context.Context, a *apiClient, keys []string) error {
	for len(keys) > 0 {
		part := keys[:min(100, len(keys))]
		keys = keys[len(part):]
		ids := make([]string, len(part))
		for i, key := range part {
			ids[i] = "user:" + key
		}
		var data json.RawMessage
		if err := a.doGraphQL(ctx, hostToken, `query($ids: [ID!]!) { nodes(ids: $ids) { id } }`, map[string]any{"ids": ids}, &data); err != nil {
			return err
		}
	}
	return nil
}

// readUserIDs reads each user's ID from the copies of profiles in Redis, and writes the IDs to a file for the baselines.
func readUserIDs(ctx context.Context, client *redis.Client, folder string) (ids map[string]uint32, file string, err error) {
	ids = map[string]uint32{}
	keys := client.Scan(ctx, 0, "{u*}:p", 1000).Iterator()
	for keys.Next(ctx) {
		text, err := client.Get(ctx, keys.Val()).Result()
		if err != nil {
			return nil, "", err
		}
		id, key, err := parseProfile(keys.Val(), text)
		if err != nil {
			return nil, "", err
		}
		ids[key] = id
	}
	if err := keys.Err(); err != nil {
		return nil, "", err
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return nil, "", err
	}
	file = filepath.Join(folder, "users.json")
	return ids, file, os.WriteFile(file, text, 0o600)
}

// parseProfile reads the copy of a user's profile in Redis: the user ID from its name, and the user's key from its text.
func parseProfile(name, text string) (id uint32, key string, err error) {
	digits, found := strings.CutSuffix(strings.TrimPrefix(name, "{u"), "}:p")
	value, err := strconv.ParseUint(digits, 10, 32)
	body := strings.Index(text, "{") // digits come before it: the version and the epoch
	if err != nil || !found || body < 0 {
		return 0, "", fmt.Errorf("%s is no copy of a user", name)
	}
	var stored struct {
		Key string `json:"k"`
	}
	if err := json.Unmarshal([]byte(text[body:]), &stored); err != nil {
		return 0, "", fmt.Errorf("%s: %w", name, err)
	}
	return uint32(value), stored.Key, nil
}
