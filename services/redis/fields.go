package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// AbsentField stands for a field that a hash does not have. No field has this value.
const AbsentField = "\x00absent"

// Fields are the names of fields to read from many hashes. If they are most of the fields that a hash has, a read asks for the
// whole hash. That takes Redis half as long as looking up each of thirty names, and makes the command shorter too.
type Fields struct {
	commandPool
	names       []string
	indexByName map[string]int // the index of each name in names; nil: the names are few, and Redis looks up each
}

// NewFields prepares the read of most fields of a hash: it asks Redis for the whole hash.
func NewFields(names []string) *Fields {
	f := &Fields{names: names, indexByName: make(map[string]int, len(names))}
	for i, name := range names {
		f.indexByName[name] = i
	}
	f.prepare(func() []any { return []any{"HGETALL", ""} })
	return f
}

// NewFewFields prepares the read of a few fields of a hash: it asks Redis for each by its name.
func NewFewFields(names []string) *Fields {
	f := &Fields{names: names}
	f.prepare(func() []any {
		args := []any{"HMGET", ""}
		for _, name := range names {
			args = append(args, name)
		}
		return args
	})
	return f
}

// NewOneField makes a read of one field, to be used once.
func NewOneField(name string) *Fields {
	return &Fields{commandPool: commandPool{args: []any{"HMGET", "", name}}, names: []string{name}}
}

// ReadFields reads fields of one hash, in their order, with AbsentField for a field that the hash does not have. Concurrent reads
// share a round trip, with the waits and errors of the batching client, at half of its processor time. The texts are appended to
// into.
func (c *Client) ReadFields(ctx context.Context, key string, fields *Fields, into []string) ([]string, error) {
	if c.fieldReads == nil && fields.indexByName == nil {
		values, err := c.batchingClient.HMGet(ctx, key, fields.names...).Result()
		return AppendTexts(into, values), err
	}
	if c.fieldReads == nil {
		values, err := c.batchingClient.HGetAll(ctx, key).Result()
		return fields.appendOrdered(into, values), err
	}
	// The command comes from a pool, with all of its arguments except the key.
	one := fields.take(key)
	err := c.fieldReads.process(ctx, one)
	reply := one.command.Val()
	fields.put(one)
	if err != nil {
		return nil, err
	}
	return fields.parse(into, reply)
}

// queue adds the read of a key to a pipeline for a cluster, as a command whose reply go-redis parses: see PreparedRead.
func (f *Fields) queue(ctx context.Context, p Pipeliner, key string) {
	if f.indexByName == nil {
		p.HMGet(ctx, key, f.names...)
	} else {
		p.HGetAll(ctx, key)
	}
}

// texts appends the values that answer has, in the order of the names. answer is the command that queue has added, after its run.
func (f *Fields) texts(into []string, answer Cmder) []string {
	switch answer := answer.(type) {
	case *redis.MapStringStringCmd:
		into = f.appendOrdered(into, answer.Val())
	case *redis.SliceCmd:
		into = AppendTexts(into, answer.Val())
	}
	return into
}

// AppendTexts appends the values of HMGET, with AbsentField for a field that the hash does not have.
func AppendTexts(into []string, values []any) []string {
	for _, value := range values {
		text, present := value.(string)
		if !present {
			text = AbsentField
		}
		into = append(into, text)
	}
	return into
}

// appendOrdered appends the values of a hash in the order of the names.
func (f *Fields) appendOrdered(into []string, values map[string]string) []string {
	for _, name := range f.names {
		text, present := values[name]
		if !present {
			text = AbsentField
		}
		into = append(into, text)
	}
	return into
}

// parse appends the texts of a reply in Redis' protocol, which go-redis has not parsed. All texts share one string.
func (f *Fields) parse(into []string, reply []byte) ([]string, error) {
	text := string(reply)
	if refusal, refused := strings.CutPrefix(text, "-"); refused {
		return nil, refusedReadError(strings.TrimSuffix(refusal, "\r\n"))
	}
	whole := false
	if f.indexByName == nil {
		into, whole = f.parseValues(into, text)
	} else {
		into, whole = f.parseHash(into, text)
	}
	if !whole {
		return nil, wrongReply(reply)
	}
	return into, nil
}

// parseValues reads the reply to HMGET in either protocol: a value or nothing for each name.
func (f *Fields) parseValues(into []string, rest string) (texts []string, whole bool) {
	count, rest, ok := parseLengthLine(rest, '*')
	if !ok || count != len(f.names) {
		return into, false
	}
	for range count {
		value := AbsentField
		if absent, found := strings.CutPrefix(rest, "$-1\r\n"); found {
			rest = absent
		} else if absent, found := strings.CutPrefix(rest, "_\r\n"); found {
			rest = absent
		} else if value, rest, ok = parseBulk(rest); !ok {
			return into, false
		}
		into = append(into, value)
	}
	return into, rest == ""
}

// parseHash reads the reply to HGETALL in either protocol: names and values in turns.
func (f *Fields) parseHash(into []string, rest string) (texts []string, whole bool) {
	pairs, rest, ok := parseLengthLine(rest, '%')
	if !ok {
		pairs, rest, ok = parseLengthLine(rest, '*')
		ok = ok && pairs%2 == 0
		pairs /= 2
	}
	if !ok {
		return into, false
	}
	first := len(into)
	for range f.names {
		into = append(into, AbsentField)
	}
	// Mostly the fields come in the order in which the document was made, which is the order of the names.
	next := 0
	for range pairs {
		var name, value string
		if name, rest, ok = parseBulk(rest); ok {
			value, rest, ok = parseBulk(rest)
		}
		if !ok {
			return into, false
		}
		index, known := next, next < len(f.names) && f.names[next] == name
		if !known {
			index, known = f.indexByName[name]
		}
		if known {
			into[first+index], next = value, index+1
		}
	}
	return into, rest == ""
}

// wrongReply is the error of a reply that no Redis sends. It leaves the bytes out, which may be a user's data.
func wrongReply(reply []byte) error {
	return fmt.Errorf("redis: unexpected reply to a read of a key: %d bytes", len(reply))
}

// parseBulk reads a bulk string of Redis' protocol (its length, then its bytes) without a copy. rest is the text after it.
func parseBulk(text string) (bulk, rest string, ok bool) {
	length, rest, ok := parseLengthLine(text, '$')
	if !ok || length < 0 || len(rest) < length+len("\r\n") {
		return "", text, false
	}
	return rest[:length], rest[length+len("\r\n"):], true
}

// refusedReadError is an error that Redis answered to a read. go-redis leaves the replies to these reads unparsed, so it does not find
// the error itself.
type refusedReadError string

// Error is the refusal as Redis sent it, whole: IsWrongType looks for words in it, MapError for its prefix.
func (e refusedReadError) Error() string { return string(e) }

// RedisError marks the error as an answer of Redis.
func (refusedReadError) RedisError() {}

// parseLengthLine reads a line that gives a length: its kind, digits and the end of the line.
func parseLengthLine(text string, kind byte) (length int, rest string, ok bool) {
	for end := 1; end+1 < len(text) && text[0] == kind; end++ {
		if text[end] == '\r' {
			length, err := strconv.Atoi(text[1:end])
			return length, text[end+2:], err == nil && text[end+1] == '\n'
		}
	}
	return 0, text, false
}
