package redis

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Prepared is a read of one key that lacks only the key: Fields of a hash, or a Range of a sorted set. It is made once and used
// concurrently.
type Prepared interface {
	take(key string) *fieldRead
	put(one *fieldRead)
	// parse appends the texts of a reply as Redis sends it. All texts share one string.
	parse(into []string, reply []byte) ([]string, error)
	// On a cluster the client must read the replies to find a slot that has moved: queue queues the read, and texts appends the texts of
	// its answer.
	queue(ctx context.Context, p Pipeliner, key string)
	texts(into []string, answer Cmder) []string
}

// KeyRead is a read of one key.
type KeyRead struct {
	Key string
	Of  Prepared
}

// commands is the pool of a read's commands.
type commands struct{ pool sync.Pool } // of *fieldRead, whose commands lack only the key

// prepare says what a command's arguments are. The second one will be the key.
func (c *commands) prepare(args func() []any) {
	c.pool.New = func() any {
		return &fieldRead{command: redis.NewRawCmd(context.Background(), args()...), signal: make(chan bool, 1)}
	}
}

// take takes a command from the pool and gives it a key.
func (c *commands) take(key string) *fieldRead {
	one := c.pool.Get().(*fieldRead)
	one.command.Args()[1] = key
	return one
}

// put returns a command to the pool, without its reply, which belongs to the caller, and without the error of the read.
func (c *commands) put(one *fieldRead) {
	one.command.SetVal(nil)
	one.command.SetErr(nil)
	c.pool.Put(one)
}

// Range is a read of members of a sorted set.
type Range struct {
	commands
	plain func(ctx context.Context, p Pipeliner, key string) // queues the same read as the library's own command
}

// NewRange prepares a read of the members from one rank to another, both included. Rank 0 is the least member, or with reverse the
// greatest.
func NewRange(from, to int, reverse bool) *Range {
	r, name := &Range{}, "ZRANGE"
	if reverse {
		name = "ZREVRANGE"
	}
	r.prepare(func() []any { return []any{name, "", from, to} })
	r.plain = func(ctx context.Context, p Pipeliner, key string) {
		if reverse {
			p.ZRevRange(ctx, key, int64(from), int64(to))
		} else {
			p.ZRange(ctx, key, int64(from), int64(to))
		}
	}
	return r
}

// NewTextRange prepares a read of at most count members whose texts lie between two bounds of ZREVRANGEBYLEX, the greatest first.
func NewTextRange(greatest, least string, count int) *Range {
	r := &Range{}
	r.prepare(func() []any { return []any{"ZREVRANGEBYLEX", "", greatest, least, "LIMIT", 0, count} })
	r.plain = func(ctx context.Context, p Pipeliner, key string) {
		p.ZRevRangeByLex(ctx, key, &redis.ZRangeBy{Max: greatest, Min: least, Count: int64(count)})
	}
	return r
}

// parse reads a reply: the members, none for a key that there is not.
func (r *Range) parse(into []string, reply []byte) ([]string, error) {
	text := string(reply)
	if refusal, refused := strings.CutPrefix(text, "-"); refused {
		return nil, refusedRead(strings.TrimSuffix(refusal, "\r\n"))
	}
	count, rest, ok := replyLine(text, '*')
	for ok = ok && count >= 0; ok && count > 0; count-- {
		var member string
		if member, rest, ok = replyBulk(rest); ok {
			into = append(into, member)
		}
	}
	if !ok || rest != "" {
		return nil, wrongReply(reply)
	}
	return into, nil
}

func (r *Range) queue(ctx context.Context, p Pipeliner, key string) { r.plain(ctx, p, key) }

func (r *Range) texts(into []string, answer Cmder) []string {
	return append(into, answer.(*redis.StringSliceCmd).Val()...)
}
