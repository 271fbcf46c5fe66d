package redis

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"tidings/services/trace"
)

// Absent stands for a field that a hash does not have. No field has this value.
const Absent = "\x00absent"

// Fields are the names of fields to read of many hashes, prepared once. They are most of the fields that the hashes have: a read
// asks for the whole hash, which takes Redis half as long as looking up each of thirty names, and is as much shorter to send.
type Fields struct {
	names  []string
	places map[string]int // by name
	reads  sync.Pool      // of *fieldRead, whose commands lack only the key
}

// NewFields prepares the names.
func NewFields(names []string) *Fields {
	f := &Fields{names: names, places: make(map[string]int, len(names))}
	for i, name := range names {
		f.places[name] = i
	}
	f.reads.New = func() any {
		return &fieldRead{command: redis.NewRawCmd(context.Background(), "HGETALL", ""), signal: make(chan bool, 1)}
	}
	return f
}

// take takes a command from the pool and gives it a key.
func (f *Fields) take(key string) *fieldRead {
	one := f.reads.Get().(*fieldRead)
	one.command.Args()[1] = key
	return one
}

// put returns a command to the pool, without its reply, which belongs to the caller, and without the error of the read.
func (f *Fields) put(one *fieldRead) {
	one.command.SetVal(nil)
	one.command.SetErr(nil)
	f.reads.Put(one)
}

// ReadFields reads fields of one hash, in their order, Absent for one that it does not have. Concurrent reads share a round trip,
// with the waits and errors of Shared, at half of its processor time. The texts are appended to into.
func (c *Client) ReadFields(ctx context.Context, key string, fields *Fields, into []string) ([]string, error) {
	if c.fields == nil {
		values, err := c.shared.HGetAll(ctx, key).Result()
		return fields.texts(into, values), err
	}
	// The command comes from a pool, with its arguments in place but for the key.
	one := fields.take(key)
	err := c.fields.process(ctx, one)
	reply := one.command.Val()
	fields.put(one)
	if err != nil {
		return nil, err
	}
	return fields.parse(into, reply)
}

// ReadEach reads fields of several hashes in one round trip (on a cluster one to each master), and calls each with the texts of
// every hash, in the order of keys. The slice of texts is used again for the next hash; the texts may be kept. As in
// Read, keys of the wrong type are emptied and all are read again, before the first call of each. It takes less processor time than
// Read: the commands are prepared, and texts are cut out of the reply as it came.
func (c *Client) ReadEach(ctx context.Context, keys []string, fields *Fields, each func(i int, texts []string)) error {
	if c.fields == nil {
		return c.readEachByValues(ctx, keys, fields, each)
	}
	replies, err := c.rawReplies(ctx, keys, fields)
	if err != nil {
		return err
	}
	var wrong []string
	for i, reply := range replies {
		if refusal, refused := bytes.CutPrefix(reply, []byte("-")); refused && IsWrongType(refusedRead(refusal)) {
			wrong = append(wrong, keys[i])
		}
	}
	if len(wrong) > 0 {
		if err := c.emptyAll(ctx, wrong); err != nil {
			return err
		}
		if replies, err = c.rawReplies(ctx, keys, fields); err != nil {
			return err
		}
	}
	texts := make([]string, 0, len(fields.names))
	for i, reply := range replies {
		if texts, err = fields.parse(texts[:0], reply); err != nil {
			return Unavailable(err)
		}
		each(i, texts)
	}
	return nil
}

// rawReplies reads the hash of each key, and returns what Redis answered, unread. The error is UNAVAILABLE.
func (c *Client) rawReplies(ctx context.Context, keys []string, fields *Fields) (replies [][]byte, err error) {
	reads := make([]*fieldRead, len(keys))
	_, err = c.Pipeline(ctx, func(p Pipeliner) {
		for i, key := range keys {
			reads[i] = fields.take(key)
			_ = p.Process(ctx, reads[i].command) // it only queues
		}
	})
	replies = make([][]byte, len(keys))
	for i, one := range reads {
		replies[i] = one.command.Val()
		fields.put(one)
	}
	return replies, err
}

// readEachByValues is ReadEach on a cluster, whose client must read the replies to find a slot that has moved.
func (c *Client) readEachByValues(ctx context.Context, keys []string, fields *Fields, each func(i int, texts []string)) error {
	commands, err := c.Read(ctx, func(p Pipeliner) {
		for _, key := range keys {
			p.HGetAll(ctx, key)
		}
	})
	if err != nil {
		return err
	}
	texts := make([]string, 0, len(fields.names))
	for i, command := range commands {
		values, err := command.(*redis.MapStringStringCmd).Result()
		if err != nil {
			return Unavailable(err)
		}
		texts = fields.texts(texts[:0], values)
		each(i, texts)
	}
	return nil
}

// texts puts the values of a hash into the order of the fields.
func (f *Fields) texts(into []string, values map[string]string) []string {
	for _, name := range f.names {
		text, present := values[name]
		if !present {
			text = Absent
		}
		into = append(into, text)
	}
	return into
}

// parse reads the reply to HGETALL as Redis sends it, in either protocol: names and values in turns. All texts share one string.
func (f *Fields) parse(into []string, reply []byte) ([]string, error) {
	rest := string(reply)
	if refusal, refused := strings.CutPrefix(rest, "-"); refused {
		return nil, refusedRead(strings.TrimSuffix(refusal, "\r\n"))
	}
	pairs, rest, ok := replyLine(rest, '%')
	if !ok {
		pairs, rest, ok = replyLine(rest, '*')
		ok = ok && pairs%2 == 0
		pairs /= 2
	}
	if !ok {
		return nil, wrongReply(reply)
	}
	first := len(into)
	for range f.names {
		into = append(into, Absent)
	}
	// Mostly the fields come in the order in which the document was made, which is that of the names.
	next := 0
	for range pairs {
		var name, value string
		if name, rest, ok = replyBulk(rest); ok {
			value, rest, ok = replyBulk(rest)
		}
		if !ok {
			return nil, wrongReply(reply)
		}
		place, known := next, next < len(f.names) && f.names[next] == name
		if !known {
			place, known = f.places[name]
		}
		if known {
			into[first+place], next = value, place+1
		}
	}
	if rest != "" {
		return nil, wrongReply(reply)
	}
	return into, nil
}

// wrongReply is the error of a reply that no Redis sends. It leaves the bytes out, which may be a user's data.
func wrongReply(reply []byte) error {
	return fmt.Errorf("redis: unexpected reply to HGETALL: %d bytes", len(reply))
}

// replyBulk reads a text of a known length, without a copy.
func replyBulk(text string) (bulk, rest string, ok bool) {
	length, rest, ok := replyLine(text, '$')
	if !ok || length < 0 || len(rest) < length+len("\r\n") {
		return "", text, false
	}
	return rest[:length], rest[length+len("\r\n"):], true
}

// refusedRead is an error that Redis answered: the library does not look for one in a reply that it leaves unread.
type refusedRead string

// Error is the refusal as Redis sent it, with its prefix: IsWrongType and Unavailable look into it.
func (e refusedRead) Error() string { return string(e) }

// RedisError marks it as an answer.
func (refusedRead) RedisError() {}

// replyLine reads a line that gives a length: its kind, digits and the end of the line.
func replyLine(text string, kind byte) (length int, rest string, ok bool) {
	for end := 1; end+1 < len(text) && text[0] == kind; end++ {
		if text[end] == '\r' {
			length, err := strconv.Atoi(text[1:end])
			return length, text[end+2:], err == nil && text[end+1] == '\n'
		}
	}
	return 0, text, false
}

// The limits of batches.
const (
	// Two batches keep the server busy while the answers to the other one are read. 256 reads of a document are about
	// 100 KB of answers.
	fieldBatches = 2 // that may be under way at a time
	fieldBatch   = 256
)

// fieldReads joins concurrent reads into pipelines without a goroutine of its own. A read that finds few batches under way leads
// one itself, at once. The others wait; when a batch has ended, the first of them leads the next one, with all that have come
// since. So a batch is as large as the server is slow.
type fieldReads struct {
	client  redis.UniversalClient
	readers *guard
	longest time.Duration   // the longest wait of a read: for the batch before it, and for its own batch
	ctx     context.Context // of the batches

	mu      sync.Mutex
	waiting []*fieldRead // empty unless all batches are under way
	leading int          // batches under way
}

// fieldRead is one read. It may wait in the list, and its goroutine waits on signal.
type fieldRead struct {
	command *redis.RawCmd
	signal  chan bool // true: it leads the next batch; false: it is answered
}

// newFieldReads makes the batches of a client; within is the time that a batch may take.
func newFieldReads(client redis.UniversalClient, readers *guard, within time.Duration) *fieldReads {
	return &fieldReads{client: client, readers: readers, longest: 2 * within, ctx: Reading(context.Background())}
}

// process sends a command, as sharedHook does. A read that joins is not cut short: its deadline leaves room for two
// batches.
func (r *fieldReads) process(ctx context.Context, one *fieldRead) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// The guard refuses here, before the read waits for a batch that would be refused.
	if r.readers.refuses() {
		return gobreaker.ErrOpenState
	}
	// Alone, its own deadline holds: a batch goes on without the caller.
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < r.longest {
		return r.client.Process(ctx, read{once{one.command}})
	}
	countRoundTrip(ctx)
	_, span := trace.Start(ctx, "redis", "shared read")
	r.join(one)
	err := one.command.Err()
	endSpan(span, err)
	return err
}

// join waits until the read is answered, and leads a batch if it is its turn.
func (r *fieldReads) join(one *fieldRead) {
	r.mu.Lock()
	if r.leading < fieldBatches {
		r.leading++
	} else {
		r.waiting = append(r.waiting, one)
		r.mu.Unlock()
		if leads := <-one.signal; !leads {
			return
		}
		r.mu.Lock()
	}
	var room [16]*fieldRead
	// It leads: with itself, it takes those who wait, the longest first.
	others := min(len(r.waiting), fieldBatch-1)
	batch := append(append(room[:0], one), r.waiting[:others]...)
	r.forget(others)
	r.mu.Unlock()
	// Deferred: after a panic in a hook, the others must not wait for ever.
	defer r.ended(batch, one)
	r.send(batch)
}

// send sends a batch and waits for its answers.
func (r *fieldReads) send(batch []*fieldRead) {
	pipe := r.client.Pipeline()
	for _, one := range batch {
		_ = pipe.Process(r.ctx, one.command) // it only queues
	}
	_, _ = pipe.Exec(r.ctx) // each command has its own error
}

// ended lets the first of the waiting reads lead, and reports to the batch, except to its leader.
func (r *fieldReads) ended(batch []*fieldRead, leader *fieldRead) {
	r.mu.Lock()
	if len(r.waiting) > 0 {
		// The batch's place goes on to it, so leading stays as it is.
		r.waiting[0].signal <- true
		r.forget(1)
	} else {
		r.leading--
	}
	r.mu.Unlock()
	for _, one := range batch {
		if one != leader {
			one.signal <- false
		}
	}
}

// forget removes the first of the waiting reads. The lock is held.
func (r *fieldReads) forget(count int) {
	left := copy(r.waiting, r.waiting[count:])
	// The array is kept for the next reads, without pointers to those that are answered.
	clear(r.waiting[left:])
	r.waiting = r.waiting[:left]
}
