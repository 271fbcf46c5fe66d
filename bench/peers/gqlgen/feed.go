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
	feedRetention           = 300
	idLetters               = 13
	idAlphabet              = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	idBitsBelowMilliseconds = 21
	authorLetters           = 5
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

func (r *Resolver) readUser(ctx context.Context, number uint32) (*User, error) {
	var stored struct {
		Key       string  `json:"k"`
		Name      *string `json:"n"`
		AvatarURL *string `json:"a"`
	}
	if err := r.readStoredJSON(ctx, fmt.Sprintf("{u%d}:p", number), &stored); err != nil {
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

// authorOf reads the author's number: five letters of base 85, in which "!" is the digit 0.
func authorOf(member string) (number uint32) {
	for i := idLetters; i < idLetters+authorLetters; i++ {
		number = number*85 + uint32(member[i]-'!')
	}
	return number
}

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

func encodeCursor(user uint32, id uint64) string {
	var bytes [13]byte
	bytes[0] = 1
	binary.BigEndian.PutUint32(bytes[1:], user)
	binary.BigEndian.PutUint64(bytes[5:], id)
	return base64.RawURLEncoding.EncodeToString(bytes[:])
}
