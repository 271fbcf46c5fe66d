package redis

import (
	"context"
	"fmt"
	"strconv"
)

// ResultStatus says what a script did to one projection. lua/lib.lua has the same numbers.
type ResultStatus int

// These are the statuses, as the scripts answer them.
const (
	Missing   ResultStatus = 0 // there is no projection: its next reader builds it
	Applied   ResultStatus = 1 // changed; Version is the new version
	Unchanged ResultStatus = 2 // there was nothing to change
	Retry     ResultStatus = 3 // the SQL read behind the call is older than a removal: read again
)

// Result is what a script did to one projection.
type Result struct {
	Status      ResultStatus
	Version     uint64   // with Applied: the version of the user's document now; 0 if the projection is not a user's
	RefillDue   bool     // the list may lack older entries, so a refill is due; with Unchanged only some scripts say so
	OnlineNodes []string // with Applied: the nodes on which the user is online
}

// ClockStamp is a moment of Redis' clock, in microseconds, taken before a SQL read. A projection refuses facts whose stamp is not
// later than its last removal: they may be older. 0 stands for a projection that does not exist.
type ClockStamp uint64

// String is the stamp as scripts take it.
func (s ClockStamp) String() string { return strconv.FormatUint(uint64(s), 10) }

// ChangeForResults runs a script once for each call, as Change does, and parses each reply as a Result: see ParseResult. One failed
// call fails them all: the scripts, and therefore the callers, may be repeated without harm.
func (c *Client) ChangeForResults(ctx context.Context, script *Script, calls []ScriptCall) ([]Result, error) {
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

// ChangeForResult runs one call of a script and parses the reply as a Result: see ParseResult.
func (c *Client) ChangeForResult(ctx context.Context, script *Script, call ScriptCall) (Result, error) {
	results, err := c.ChangeForResults(ctx, script, []ScriptCall{call})
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// ParseResult parses what a script returned as {status, n, short, nodes...}: n is the version, and short is 1 if a refill is due. With
// the status Applied all values count, with Unchanged only short, and with any other status none.
func ParseResult(value any) (result Result, err error) {
	parts, ok := value.([]any)
	if !ok || len(parts) == 0 {
		return result, fmt.Errorf("unexpected reply %v", value)
	}
	status, _ := parts[0].(int64)
	result.Status = ResultStatus(status)
	// Most scripts answer a status alone where nothing changed.
	if result.Status != Applied {
		if result.Status == Unchanged && len(parts) >= 3 {
			short, _ := parts[2].(int64)
			result.RefillDue = short == 1
		}
		return result, nil
	}
	if len(parts) < 3 {
		return result, fmt.Errorf("unexpected reply %v", value)
	}
	n, _ := parts[1].(string)
	if result.Version, err = strconv.ParseUint(n, 10, 64); err != nil {
		return result, fmt.Errorf("unexpected reply %v: %w", value, err)
	}
	short, _ := parts[2].(int64)
	result.RefillDue = short == 1
	for _, part := range parts[3:] {
		node, _ := part.(string)
		result.OnlineNodes = append(result.OnlineNodes, node)
	}
	return result, nil
}

// ChangeForStamps runs a script that returns a stamp, once for each call, as Change does. One failed call fails them all.
func (c *Client) ChangeForStamps(ctx context.Context, script *Script, calls []ScriptCall) ([]ClockStamp, error) {
	replies, err := c.Change(ctx, script, calls)
	if err != nil {
		return nil, err
	}
	stamps := make([]ClockStamp, len(replies))
	for i, reply := range replies {
		if stamps[i], err = parseStamp(reply); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", script.Name, calls[i].Keys[0], err)
		}
	}
	return stamps, nil
}

// ChangeForStamp runs one call of a script that returns a stamp.
func (c *Client) ChangeForStamp(ctx context.Context, script *Script, call ScriptCall) (ClockStamp, error) {
	stamps, err := c.ChangeForStamps(ctx, script, []ScriptCall{call})
	if err != nil {
		return 0, err
	}
	return stamps[0], nil
}

// parseStamp reads what a script returned as a stamp.
func parseStamp(reply Reply) (ClockStamp, error) {
	if reply.Err != nil {
		return 0, MapError(reply.Err)
	}
	text, _ := reply.Value.(string)
	// Scripts answer stamps as texts, as they store them.
	stamp, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("unexpected stamp %v: %w", reply.Value, err)
	}
	return ClockStamp(stamp), nil
}

// FormatInteger prints a whole number as scripts and the values in Redis have it.
func FormatInteger[N ~int | ~int64 | ~uint64](n N) string {
	if n < 0 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatUint(uint64(n), 10)
}
