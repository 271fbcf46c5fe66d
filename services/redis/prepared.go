package redis

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// PreparedRead is a read of one key that lacks only the key: Fields of a hash, or a SortedSetRange. It is made once and used
// concurrently, unless the function that makes it says that it is for one read.
type PreparedRead interface {
	take(key string) *fieldRead // returns a command that reads the key
	put(one *fieldRead)         // takes the command back, for the next read
	// parse appends the texts of a reply in Redis' protocol, which go-redis has not parsed. All texts share one string.
	parse(into []string, reply []byte) ([]string, error)
	// On a cluster the client must read the replies to find a slot that has moved: queue queues the read, and texts appends the
	// texts of its answer.
	queue(ctx context.Context, p Pipeliner, key string)
	texts(into []string, answer Cmder) []string
}

// KeyRead is a read of one key.
type KeyRead struct {
	Key  string
	Read PreparedRead
}

// commandPool has a read's commands, which lack only the key.
type commandPool struct {
	pool *sync.Pool // of *fieldRead; nil: they are used once
	args []any      // without a pool: the arguments of the one command
}

// prepare sets the function that makes the arguments of a command. The second argument will be the key.
func (c *commandPool) prepare(args func() []any) {
	c.pool = &sync.Pool{New: func() any { return newFieldRead(args()) }}
}

// newFieldRead makes a read with the arguments of its command.
func newFieldRead(args []any) *fieldRead {
	return &fieldRead{command: redis.NewRawCmd(context.Background(), args...), leadsNext: make(chan bool, 1)}
}

// take takes a command and gives it a key.
func (c *commandPool) take(key string) *fieldRead {
	var one *fieldRead
	if c.pool == nil {
		one = newFieldRead(slices.Clone(c.args))
	} else {
		one = c.pool.Get().(*fieldRead)
	}
	one.command.Args()[1] = key
	return one
}

// put returns a command to the pool, without its reply, which belongs to the caller, and without the error of the read.
func (c *commandPool) put(one *fieldRead) {
	one.command.SetVal(nil)
	one.command.SetErr(nil)
	if c.pool != nil {
		c.pool.Put(one)
	}
}

// ReadEach reads several keys in one round trip (on a cluster one to each master), and calls each with the texts of every key, in
// the order of reads: the values of Fields, with AbsentField for a field that a hash does not have, or the members of a
// SortedSetRange. The slice of texts is used again for the next key; the texts may be kept. As in Read, keys of the wrong type are
// emptied and all keys are read again, before the first call of each. It takes less processor time than Read: the commands are
// prepared, and texts are cut out of the reply as it came.
func (c *Client) ReadEach(ctx context.Context, reads []KeyRead, each func(i int, texts []string)) error {
	if c.fieldReads == nil {
		return c.readEachOnCluster(ctx, reads, each)
	}
	sent := readBatches.Get().(*readBatch)
	defer readBatches.Put(sent)
	defer sent.release(reads)
	if err := sent.send(ctx, c, reads); err != nil {
		return err
	}
	var wrong []string
	for i := range reads {
		if refusal, refused := bytes.CutPrefix(sent.reply(i), []byte("-")); refused && IsWrongType(refusedReadError(refusal)) {
			wrong = append(wrong, reads[i].Key)
		}
	}
	if len(wrong) > 0 {
		if err := c.emptyAll(ctx, wrong); err != nil {
			return err
		}
		sent.release(reads)
		if err := sent.send(ctx, c, reads); err != nil {
			return err
		}
	}
	var texts []string
	var err error
	for i := range reads {
		if texts, err = reads[i].Read.parse(texts[:0], sent.reply(i)); err != nil {
			return MapError(err)
		}
		each(i, texts)
	}
	return nil
}

// readBatch has the commands of one ReadEach, in two lists. Each second a node reads keys of every user who is watched, so the lists
// are used again.
type readBatch struct {
	reads    []*fieldRead  // from the pools of their reads, to which release returns them
	commands []redis.Cmder // the commands of reads, in the type that go-redis takes
}

// readBatches has each readBatch that can be used again.
var readBatches = sync.Pool{New: func() any { return new(readBatch) }}

// send sends the reads in one round trip, and does not parse the replies. The error is UNAVAILABLE. release must follow.
func (s *readBatch) send(ctx context.Context, c *Client, reads []KeyRead) error {
	for _, read := range reads {
		one := read.Read.take(read.Key)
		s.reads, s.commands = append(s.reads, one), append(s.commands, one.command)
	}
	_, err := c.Pipeline(ctx, func(p Pipeliner) {
		_ = p.BatchProcess(ctx, s.commands...) // it only queues
	})
	return err
}

// reply is the answer to the read with index i, in Redis' protocol, not parsed.
func (s *readBatch) reply(i int) []byte { return s.reads[i].command.Val() }

// release returns the commands to their pools, without their replies.
func (s *readBatch) release(reads []KeyRead) {
	for i, one := range s.reads {
		reads[i].Read.put(one)
	}
	clear(s.reads)
	clear(s.commands)
	s.reads, s.commands = s.reads[:0], s.commands[:0]
}

// readEachOnCluster reads several keys and calls each with the texts of every key, as ReadEach does, on a cluster. It uses go-redis'
// own commands, because the client must read the replies to find a slot that has moved.
func (c *Client) readEachOnCluster(ctx context.Context, reads []KeyRead, each func(i int, texts []string)) error {
	answers, err := c.Read(ctx, func(p Pipeliner) {
		for _, read := range reads {
			read.Read.queue(ctx, p, read.Key)
		}
	})
	if err != nil {
		return err
	}
	var texts []string
	for i, answer := range answers {
		if err := answer.Err(); err != nil {
			return MapError(err)
		}
		texts = reads[i].Read.texts(texts[:0], answer)
		each(i, texts)
	}
	return nil
}

// SortedSetRange is a read of members of a sorted set.
type SortedSetRange struct {
	commandPool
	queueCommand func(ctx context.Context, p Pipeliner, key string) // adds the read to a pipeline as a command that go-redis parses
}

// NewRange prepares a read of the members from one rank to another, both included. Rank 0 is the least member, or with reverse the
// greatest.
func NewRange(from, to int, reverse bool) *SortedSetRange {
	r, name := &SortedSetRange{}, "ZRANGE"
	if reverse {
		name = "ZREVRANGE"
	}
	r.prepare(func() []any { return []any{name, "", from, to} })
	r.queueCommand = func(ctx context.Context, p Pipeliner, key string) {
		if reverse {
			p.ZRevRange(ctx, key, int64(from), int64(to))
		} else {
			p.ZRange(ctx, key, int64(from), int64(to))
		}
	}
	return r
}

// NewTextRange makes a read of at most count members whose texts lie between two bounds of ZREVRANGEBYLEX, the greatest first, to
// be used once.
func NewTextRange(greatest, least string, count int) *SortedSetRange {
	r := &SortedSetRange{commandPool: commandPool{args: []any{"ZREVRANGEBYLEX", "", greatest, least, "LIMIT", 0, count}}}
	r.queueCommand = func(ctx context.Context, p Pipeliner, key string) {
		p.ZRevRangeByLex(ctx, key, &redis.ZRangeBy{Max: greatest, Min: least, Count: int64(count)})
	}
	return r
}

// parse appends the members in a reply, none for a key that does not exist.
func (r *SortedSetRange) parse(into []string, reply []byte) ([]string, error) {
	text := string(reply)
	if refusal, refused := strings.CutPrefix(text, "-"); refused {
		return nil, refusedReadError(strings.TrimSuffix(refusal, "\r\n"))
	}
	count, rest, ok := parseLengthLine(text, '*')
	for ok = ok && count >= 0; ok && count > 0; count-- {
		var member string
		if member, rest, ok = parseBulk(rest); ok {
			into = append(into, member)
		}
	}
	if !ok || rest != "" {
		return nil, wrongReply(reply)
	}
	return into, nil
}

// queue adds the read of a key to a pipeline for a cluster, as a command whose reply go-redis parses: see PreparedRead.
func (r *SortedSetRange) queue(ctx context.Context, p Pipeliner, key string) {
	r.queueCommand(ctx, p, key)
}

// texts appends the members in answer, the command that queue has added, after its run.
func (r *SortedSetRange) texts(into []string, answer Cmder) []string {
	return append(into, answer.(*redis.StringSliceCmd).Val()...)
}
