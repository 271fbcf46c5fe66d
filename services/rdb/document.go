package rdb

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tidings/services"
)

// Document is the badge document of one user as Redis has it: the hash {u<number>}:b.
//
//	st    0 while it is being built, 1 when good
//	rm    stamp (us) of birth or of the last removal: an add read before it is refused
//	n     version of the user's own half (us)
//	d     the day (since 1970) on which the user was last marked active
//	T     home feed: seen up to (post id)
//	fc    home feed: the count, 0 to 300, with "+" when it may be more
//	fq ft home feed: newest entry that does not count; newest counting entry ever trimmed
//	N<category> H<category>  absolute notification counts "ver;older;day;c0,...,c7", place of the newest
type Document struct {
	Ready         bool // false: missing or being built, and then nothing else counts
	N             uint64
	Day           int64
	Seen          services.PostID
	FeedCount     int
	FeedMore      bool // FeedCount or more
	Notifications []services.CategoryCounts
}

var documentFields = func() []string {
	fields := []string{"st", "n", "d", "T", "fc"}
	for _, category := range services.Categories {
		fields = append(fields, "N"+string(category), "H"+string(category))
	}
	return fields
}()

// Documents reads the badge documents of the users, in their order, by one HMGET each in one round trip.
func (c *Client) Documents(ctx context.Context, users []services.UserNumber) ([]Document, error) {
	if len(users) == 1 {
		values, err := c.auto().HMGet(ctx, badgeKey(users[0]), documentFields...).Result()
		if err != nil {
			return nil, unavailable(err)
		}
		return []Document{parseDocument(values)}, nil
	}
	commands, err := c.pipeline(ctx, func(p redis.Pipeliner) {
		for _, user := range users {
			p.HMGet(ctx, badgeKey(user), documentFields...)
		}
	})
	if err != nil {
		return nil, err
	}
	documents := make([]Document, len(users))
	for i, command := range commands {
		values, err := command.(*redis.SliceCmd).Result()
		if err != nil {
			return nil, unavailable(err)
		}
		documents[i] = parseDocument(values)
	}
	return documents, nil
}

// Versions reads n of each user's document in one round trip: 0 where it is missing or being built.
func (c *Client) Versions(ctx context.Context, users []services.UserNumber) ([]uint64, error) {
	commands, err := c.pipeline(ctx, func(p redis.Pipeliner) {
		for _, user := range users {
			p.HMGet(ctx, badgeKey(user), "st", "n")
		}
	})
	if err != nil {
		return nil, err
	}
	versions := make([]uint64, len(users))
	for i, command := range commands {
		values, err := command.(*redis.SliceCmd).Result()
		if err != nil {
			return nil, unavailable(err)
		}
		if st, _ := values[0].(string); st == "1" {
			n, _ := values[1].(string)
			versions[i], _ = strconv.ParseUint(n, 10, 64)
		}
	}
	return versions, nil
}

var versionRaise = loadScript("version_raise")

// RaiseVersions lifts the versions of documents above ones that were made up without Redis: passed[i] is of users[i].
func (c *Client) RaiseVersions(ctx context.Context, users []services.UserNumber, passed []uint64) ([]Result, error) {
	calls := make([]call, len(users))
	for i, user := range users {
		calls[i] = call{keys: []string{badgeKey(user), onlineKey(user)}, args: []any{passed[i]}}
	}
	return c.results(ctx, versionRaise, calls)
}

// parseDocument reads the fields; one that is missing or broken makes the document not ready, never a 0.
func parseDocument(values []any) Document {
	texts := make([]string, len(values))
	for i, value := range values {
		text, ok := value.(string)
		if !ok {
			return Document{}
		}
		texts[i] = text
	}
	if len(texts) != len(documentFields) || texts[0] != "1" {
		return Document{}
	}
	var d Document
	var failed bool
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 10, 63)
		failed = failed || err != nil
		return n
	}
	place := func(text string) services.PostID {
		id, err := services.ParsePostID(text)
		failed = failed || err != nil
		return id
	}
	d.N, d.Day, d.Seen = number(texts[1]), int64(number(texts[2])), place(texts[3])
	count, more := strings.CutSuffix(texts[4], "+")
	d.FeedCount, d.FeedMore = int(number(count)), more
	for i, category := range services.Categories {
		counts, err := parseCounts(texts[5+2*i])
		failed = failed || err != nil
		counts.Category, counts.Newest = category, place(texts[6+2*i])
		d.Notifications = append(d.Notifications, counts)
	}
	if failed {
		return Document{}
	}
	d.Ready = true
	return d
}

// countsText prints absolute counts as "ver;older;day;c0,...,c7".
func countsText(counts services.CategoryCounts) string {
	text := make([]byte, 0, 64)
	text = strconv.AppendUint(text, counts.Version, 10)
	text = append(text, ';')
	text = strconv.AppendInt(text, int64(counts.Older), 10)
	text = append(text, ';')
	text = strconv.AppendInt(text, counts.Day, 10)
	for i, count := range counts.Days {
		text = append(text, ";,"[min(i, 1)])
		text = strconv.AppendInt(text, int64(count), 10)
	}
	return string(text)
}

func parseCounts(text string) (counts services.CategoryCounts, err error) {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == ',' })
	if len(parts) != 3+len(counts.Days) {
		return counts, fmt.Errorf("counts %q: %d parts", text, len(parts))
	}
	var numbers [3 + len(counts.Days)]uint64
	for i, part := range parts {
		if numbers[i], err = strconv.ParseUint(part, 10, 63); err != nil {
			return counts, fmt.Errorf("counts %q: %w", text, err)
		}
	}
	counts.Version, counts.Older, counts.Day = numbers[0], int(numbers[1]), int64(numbers[2])
	for i := range counts.Days {
		counts.Days[i] = int(numbers[3+i])
	}
	return counts, nil
}
