package redis

import (
	"context"
	"fmt"
	"strconv"
)

// Status says what a script did to one projection. lua/lib.lua has the same numbers.
type Status int

// These are the statuses, as the scripts answer them.
const (
	Missing Status = 0 // there is no projection: its next reader builds it
	Applied Status = 1 // changed; N is the new version
	Same    Status = 2 // there was nothing to change
	Retry   Status = 3 // the SQL read behind the call is older than a removal: read again
)

// Result is what a script did to one projection.
type Result struct {
	Status Status
	N      uint64   // with Applied: the version of the user's document now; 0 if the projection is not a user's
	Short  bool     // the list may lack older entries, so a refill is due; with Same only some scripts say so
	Nodes  []string // with Applied: the nodes on which the user is online
}

// Stamp is a moment of Redis' clock, in microseconds, taken before a SQL read. A projection refuses facts whose stamp is not
// later than its last removal: they may be older. 0 stands for a projection that does not exist.
type Stamp uint64

// String is the stamp as scripts take it.
func (s Stamp) String() string { return strconv.FormatUint(uint64(s), 10) }

// ChangeForResults is Change for a script that returns {status, n, short, nodes...}. One failed call fails them all: the scripts, and
// therefore the callers, may be repeated without harm.
func (c *Client) ChangeForResults(ctx context.Context, script *Script, calls []Call) ([]Result, error) {
	replies, err := c.Change(ctx, script, calls)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(replies))
	for i, reply := range replies {
		if reply.Err != nil {
			return nil, fmt.Errorf("%s: %w", script.Name, MapError(reply.Err))
		}
		if results[i], err = ParseResult(reply.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", script.Name, err)
		}
	}
	return results, nil
}

// ChangeForResult is ChangeForResults for one call.
func (c *Client) ChangeForResult(ctx context.Context, script *Script, call Call) (Result, error) {
	results, err := c.ChangeForResults(ctx, script, []Call{call})
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// ParseResult reads what a script returned as {status, n, short, nodes...}. With the status Applied all values count, with Same only
// short, and with any other status none.
func ParseResult(value any) (result Result, err error) {
	parts, ok := value.([]any)
	if !ok || len(parts) == 0 {
		return result, fmt.Errorf("unexpected reply %v", value)
	}
	status, _ := parts[0].(int64)
	result.Status = Status(status)
	// Most scripts answer a status alone where nothing changed.
	if result.Status != Applied {
		if result.Status == Same && len(parts) >= 3 {
			short, _ := parts[2].(int64)
			result.Short = short == 1
		}
		return result, nil
	}
	if len(parts) < 3 {
		return result, fmt.Errorf("unexpected reply %v", value)
	}
	n, _ := parts[1].(string)
	if result.N, err = strconv.ParseUint(n, 10, 64); err != nil {
		return result, fmt.Errorf("unexpected reply %v: %w", value, err)
	}
	short, _ := parts[2].(int64)
	result.Short = short == 1
	for _, part := range parts[3:] {
		node, _ := part.(string)
		result.Nodes = append(result.Nodes, node)
	}
	return result, nil
}

// ChangeForStamps is Change for a script that returns a stamp. One failed call fails them all.
func (c *Client) ChangeForStamps(ctx context.Context, script *Script, calls []Call) ([]Stamp, error) {
	replies, err := c.Change(ctx, script, calls)
	if err != nil {
		return nil, err
	}
	stamps := make([]Stamp, len(replies))
	for i, reply := range replies {
		if stamps[i], err = parseStamp(reply); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", script.Name, calls[i].Keys[0], err)
		}
	}
	return stamps, nil
}

// ChangeForStamp is ChangeForStamps for one call.
func (c *Client) ChangeForStamp(ctx context.Context, script *Script, call Call) (Stamp, error) {
	stamps, err := c.ChangeForStamps(ctx, script, []Call{call})
	if err != nil {
		return 0, err
	}
	return stamps[0], nil
}

// parseStamp reads what a script returned as a stamp.
func parseStamp(reply Reply) (Stamp, error) {
	if reply.Err != nil {
		return 0, MapError(reply.Err)
	}
	text, _ := reply.Value.(string)
	// Scripts answer stamps as texts, as they store them.
	stamp, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("unexpected stamp %v: %w", reply.Value, err)
	}
	return Stamp(stamp), nil
}

// Digits prints a whole number as scripts and the values in Redis have it.
func Digits[N ~int | ~int64 | ~uint64](n N) string {
	if n < 0 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatUint(uint64(n), 10)
}
