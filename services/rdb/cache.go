package rdb

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// Copies of facts in Redis save SQL reads: a post's text, a user's profile. A copy is 16 digits of version (the fact's last
// change in microseconds), the epoch of its writing (a Redis that lost writes may hold an older copy), and JSON. An older copy
// never overwrites a newer one. A missing copy is read from SQL. A broken copy counts as missing.

// cachePut is the script that writes a copy, unless Redis has a newer one.
var cachePut = loadScript("cache_put")

// The constants are the form of a copy's version, and the lifetime of a copy.
const (
	copyVersionDigits = 16
	// copyLifetime frees copies that are no longer in use. Each write starts it again, a read does not: if an expired copy is still
	// in use, the fact is read from SQL and written again.
	copyLifetime = 7 * 24 * time.Hour
)

// postCopy and userCopy are the JSON of copies. The names are short, because there are millions of copies; stored copies
// contain them, so they must not change.
type postCopy struct {
	Author       services.UserID   `json:"a"`
	Kind         services.PostKind `json:"k"`
	Parent       services.PostID   `json:"p,omitempty"`
	OffFeed      bool              `json:"o,omitempty"`
	Pulled       bool              `json:"w,omitempty"`
	Body         string            `json:"b,omitempty"`
	Deleted      bool              `json:"d,omitempty"`
	EditedMicros *int64            `json:"e"` // microseconds, 0 for never; nil in a copy from before this field, which counts as missing
}

// userCopy is the JSON of the copy of a user's profile; its names must not change either.
type userCopy struct {
	Key       string `json:"k"`
	Name      string `json:"n,omitempty"`
	AvatarURL string `json:"a,omitempty"`
}

// Copies reads copies of posts and of users, both kinds in one round trip. The maps omit the copies that Redis does not have.
func (c *Projections) Copies(ctx context.Context, posts []services.PostID, users []services.UserID) (map[services.PostID]services.Post, map[services.UserID]services.User, error) {
	foundPosts, foundUsers := make(map[services.PostID]services.Post, len(posts)), make(map[services.UserID]services.User, len(users))
	if len(posts)+len(users) == 0 {
		return foundPosts, foundUsers, nil
	}
	if err := c.Client.CheckTrusted(); err != nil {
		return nil, nil, err
	}
	// Readers wait less than writers, because they can read from SQL instead.
	ctx = redis.WithReadGuard(ctx)
	commands, err := c.Client.Read(ctx, func(p redis.Pipeliner) {
		for _, post := range posts {
			p.Get(ctx, postKey(post))
		}
		for _, user := range users {
			p.Get(ctx, profileKey(user))
		}
	})
	if err != nil {
		return nil, nil, err
	}
	epoch := c.Client.Epoch() // read after the answers, so that a change meanwhile rejects them, see Documents
	for i, command := range commands {
		text, err := command.(*redis.StringCmd).Result()
		if err != nil {
			// One failed command fails the whole call, so that the caller does not read from SQL one by one.
			if err != redis.Nil {
				return nil, nil, redis.MapError(err)
			}
			continue
		}
		// The commands were queued in this order: all posts, and then all users.
		if i < len(posts) {
			if post, ok := parsePostCopy(epoch, posts[i], text); ok {
				foundPosts[post.ID] = post
			}
		} else if user, ok := parseUserCopy(epoch, users[i-len(posts)], text); ok {
			foundUsers[user.ID] = user
		}
	}
	return foundPosts, foundUsers, nil
}

// PutCopies writes copies, unless Redis has newer ones. It is called after the commit of each change, and after a read
// from SQL, in any order: the version in each copy decides.
func (c *Projections) PutCopies(ctx context.Context, posts []services.Post, users []services.User) error {
	// The epoch is taken before the writes: if Redis loses data between the two, readers reject the copies instead of trusting
	// them.
	calls, epoch := make([]redis.ScriptCall, 0, len(posts)+len(users)), c.Client.Epoch()
	// put adds the call for one copy, with that epoch.
	put := func(key string, changed time.Time, value any) error {
		body, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("copy %s: %w", key, err)
		}
		// The version has a fixed width, so that the script compares it as text. A time before 1970 would have a sign, so it
		// counts as 1970.
		text := fmt.Sprintf("%0*d%s%s", copyVersionDigits, max(changed.UnixMicro(), 0), epoch, body)
		calls = append(calls, redis.ScriptCall{Keys: []string{key}, Args: []any{text, int64(copyLifetime / time.Second)}})
		return nil
	}
	for _, post := range posts {
		err := put(postKey(post.ID), post.UpdatedAt, postCopy{post.Author, post.Kind, post.Parent, post.OffFeed, post.Pulled, post.Body, post.Deleted, editedMicros(post)})
		if err != nil {
			return err
		}
	}
	for _, user := range users {
		if err := put(profileKey(user.ID), user.UpdatedAt, userCopy{user.Key, user.Name, user.AvatarURL}); err != nil {
			return err
		}
	}
	_, err := c.Client.Change(ctx, cachePut, calls)
	return err
}

// parsePostCopy reads a copy of a post. If it returns false, the caller reads SQL.
func parsePostCopy(epoch string, id services.PostID, text string) (services.Post, bool) {
	var stored postCopy
	changed, ok := parseCopy(epoch, text, &stored)
	if !ok || stored.EditedMicros == nil {
		return services.Post{}, false
	}
	post := services.Post{
		ID: id, Author: stored.Author, Kind: stored.Kind, Parent: stored.Parent, OffFeed: stored.OffFeed, Pulled: stored.Pulled,
		Body: stored.Body, Deleted: stored.Deleted, UpdatedAt: changed,
	}
	if *stored.EditedMicros != 0 {
		post.EditedAt = time.UnixMicro(*stored.EditedMicros).UTC()
	}
	return post, true
}

// editedMicros is the time of the last edit for a copy, 0 for a post that was never edited.
func editedMicros(post services.Post) *int64 {
	var edited int64
	if !post.EditedAt.IsZero() {
		edited = post.EditedAt.UnixMicro()
	}
	return &edited
}

// parseUserCopy reads a copy of a profile. If it returns false, the caller reads SQL.
func parseUserCopy(epoch string, id services.UserID, text string) (services.User, bool) {
	var stored userCopy
	changed, ok := parseCopy(epoch, text, &stored)
	return services.User{ID: id, Key: stored.Key, Name: stored.Name, AvatarURL: stored.AvatarURL, UpdatedAt: changed}, ok
}

// parseCopy splits a copy into its version and its JSON. A copy of another epoch may be older than the fact, whatever
// its version says: ok is false.
func parseCopy(epoch, text string, into any) (changed time.Time, ok bool) {
	if len(text) <= copyVersionDigits {
		return changed, false
	}
	// The version is read digit by digit: ParseInt takes a sign, which no version has.
	var micros int64
	for _, digit := range []byte(text[:copyVersionDigits]) {
		if digit < '0' || digit > '9' {
			return changed, false
		}
		micros = micros*10 + int64(digit-'0')
	}
	// If the copy's epoch is longer than this one and begins with it, its other digits stay before the JSON, and the text does not
	// parse.
	body, known := strings.CutPrefix(text[copyVersionDigits:], epoch)
	return time.UnixMicro(micros).UTC(), known && json.Unmarshal([]byte(body), into) == nil
}
