package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	feedRetention           = 300                                // posts in a feed
	idLetters               = 13                                 // letters of a post's ID
	idAlphabet              = "0123456789ABCDEFGHJKMNPQRSTVWXYZ" // each letter of an ID is a digit of base 32
	idBitsBelowMilliseconds = 21                                 // the bits of an ID to the right of its time in milliseconds
	authorLetters           = 5                                  // letters of the author's user ID in a member of an inbox
)

// readFeed reads a page of the inbox, with one call to Redis for each command.
func (r *Resolver) readFeed(ctx context.Context, user uint32, first int) (*PostConnection, error) {
	inbox := fmt.Sprintf("{u%d}:i", user)
	st, err := r.redis.HGet(ctx, fmt.Sprintf("{u%d}:b", user), "st").Result()
	if err != nil {
		return nil, err
	}
	sentinel, err := r.redis.ZRange(ctx, inbox, 0, 0).Result()
	if err != nil {
		return nil, err
	}
	oldest, err := r.redis.ZRangeArgs(ctx, redis.ZRangeArgs{Key: inbox, Start: feedRetention - 1, Stop: feedRetention - 1, Rev: true}).Result()
	if err != nil {
		return nil, err
	}
	members, err := r.redis.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: inbox, Start: "(7ZZZZZZZZZZZZ", Stop: "-", ByLex: true, Rev: true, Count: int64(first + 1),
	}).Result()
	if err != nil {
		return nil, err
	}
	if st != "1" || len(sentinel) == 0 || sentinel[0][0] != '!' {
		return nil, fmt.Errorf("user %d has no inbox", user)
	}
	floor := ""
	if len(oldest) > 0 {
		floor = oldest[0]
	}
	return newFeedPage(user, first, members, floor, sentinel[0][1:])
}

// newFeedPage makes a page of at most first posts from raw, which are members of the inbox, newest first. The feed ends with the member
// oldest. cut is the ID of the newest post that was trimmed from the inbox, or zeroID.
func newFeedPage(user uint32, first int, raw []string, oldest, cut string) (*PostConnection, error) {
	var members []string
	for _, member := range raw {
		if member[0] != '!' && member >= oldest {
			members = append(members, member)
		}
	}
	connection := &PostConnection{Edges: []*PostEdge{}, PageInfo: &PageInfo{HasNextPage: len(members) > first}}
	for _, member := range members[:min(first, len(members))] {
		id, err := parseID(member[:idLetters])
		if err != nil {
			return nil, err
		}
		connection.Edges = append(connection.Edges, &PostEdge{Cursor: encodeCursor(user, id), inboxMember: member})
	}
	if n := len(connection.Edges); n > 0 {
		lastID := "post:" + members[n-1][:idLetters]
		connection.PageInfo.StartCursor, connection.PageInfo.EndCursor = &connection.Edges[0].Cursor, &connection.Edges[n-1].Cursor
		connection.LastID = &lastID
	}
	if !connection.PageInfo.HasNextPage {
		end := FeedEndEnd
		if cut != zeroID {
			end = FeedEndRetention
		}
		connection.End = &end
	}
	return connection, nil
}

// readPost reads the post of one member of an inbox. The seeded feeds hold no deleted posts.
func (r *Resolver) readPost(ctx context.Context, member string) (*Post, error) {
	letters := member[:idLetters]
	id, err := parseID(letters)
	if err != nil {
		return nil, err
	}
	var stored struct {
		Kind PostKind `json:"k"`
		Body string   `json:"b"`
	}
	if err := r.readStoredJSON(ctx, "p:"+letters, &stored); err != nil {
		return nil, err
	}
	return &Post{
		ID: "post:" + letters, Kind: stored.Kind, Body: stored.Body, author: authorOf(member),
		PublishedAt: time.UnixMilli(int64(id >> idBitsBelowMilliseconds)).UTC().Format("2006-01-02T15:04:05.000Z"),
	}, nil
}

// readUser reads the copy of a user's profile.
func (r *Resolver) readUser(ctx context.Context, id uint32) (*User, error) {
	var stored struct {
		Key       string  `json:"k"`
		Name      *string `json:"n"`
		AvatarURL *string `json:"a"`
	}
	if err := r.readStoredJSON(ctx, fmt.Sprintf("{u%d}:p", id), &stored); err != nil {
		return nil, err
	}
	return &User{ID: "user:" + stored.Key, Key: stored.Key, Name: stored.Name, AvatarURL: stored.AvatarURL}, nil
}

// readStoredJSON reads a copy of a fact. Its text is digits, which are its version and epoch, and then JSON.
func (r *Resolver) readStoredJSON(ctx context.Context, key string, into any) error {
	text, err := r.redis.Get(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	body := strings.Index(text, "{")
	if body < 0 {
		return fmt.Errorf("%s: no JSON in %d bytes", key, len(text))
	}
	return json.Unmarshal([]byte(text[body:]), into)
}

// authorOf returns the user ID of the author in a member of an inbox: five digits of base 85, of which "!" is 0.
func authorOf(member string) (id uint32) {
	for i := idLetters; i < idLetters+authorLetters; i++ {
		id = id*85 + uint32(member[i]-'!')
	}
	return id
}

// parseID returns the number that an ID stands for, which is written in digits of base 32.
func parseID(letters string) (id uint64, err error) {
	for i := range len(letters) {
		value := strings.IndexByte(idAlphabet, letters[i])
		if value < 0 {
			return 0, fmt.Errorf("%q is not an id", letters)
		}
		id = id<<5 | uint64(value)
	}
	return id, nil
}

// encodeCursor returns the cursor of a post in a user's feed, in the format of Tidings.
func encodeCursor(user uint32, id uint64) string {
	var bytes [13]byte
	bytes[0] = 1
	binary.BigEndian.PutUint32(bytes[1:], user)
	binary.BigEndian.PutUint64(bytes[5:], id)
	return base64.RawURLEncoding.EncodeToString(bytes[:])
}
