package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// NoStepNumber is the first argument of a script's call that stands alone, and is not a step that NumberSteps has numbered.
const NoStepNumber = ""

// SequenceStep is one command of a sequence: a call of a script, or a plain command.
type SequenceStep struct {
	Script *Script // nil: the arguments are a plain command, and there are no keys beside them
	ScriptCall
}

// RunSequence runs steps on keys of one hash tag in their order, at most 500 in a round trip. There is a reply for every step. Any
// step may fail or be lost although steps before and after it succeed: a step that needs an earlier step must check in Redis that
// the earlier one took effect. If the master does not know one of the scripts, the whole round trip is sent again, and the replies
// are the answers to the second sending: steps may be applied twice. The error is UNAVAILABLE and means that a round trip was not
// answered at all; the steps after it are not sent.
func (c *Client) RunSequence(ctx context.Context, steps []SequenceStep) ([]Reply, error) {
	replies := make([]Reply, 0, len(steps))
	// Parts go out one after the other, because a step may check what one before it has written.
	for part := range slices.Chunk(steps, maxCallsPerPipeline) {
		got, missing := c.sendPipeline(ctx, len(part), func(p redis.Pipeliner, i int) { part[i].queue(ctx, p, false) })
		if missing {
			c.reloadScripts()
			got, _ = c.sendPipeline(ctx, len(part), func(p redis.Pipeliner, i int) { part[i].queue(ctx, p, true) })
		}
		answered, err := mapErrors(got)
		replies = append(replies, got...)
		if !answered {
			return replies, fmt.Errorf("a sequence of %d steps: %w", len(steps), err)
		}
	}
	return replies, nil
}

// queue adds the step to a pipeline, with the text of its script, or with the script's SHA-1 alone, which the master must know.
func (s SequenceStep) queue(ctx context.Context, p redis.Pipeliner, text bool) {
	switch {
	case s.Script == nil:
		p.Do(ctx, s.Args...)
	case text:
		p.Eval(ctx, s.Script.Source, s.Keys, s.Args...)
	default:
		p.EvalSha(ctx, s.Script.sha1, s.Keys, s.Args...)
	}
}

// NumberSteps numbers steps. The script of each gets its number as the first argument, and notes it in Redis, see note in
// lua/lib.lua. NumberSteps returns the last number: a script that finds it noted knows that no step is missing. Without steps it
// returns NoStepNumber.
func NumberSteps(steps []SequenceStep) (last string) {
	// Each number begins with a random text, so that steps of another rebuild of the same user do not count as steps of this one.
	chain := strconv.FormatUint(rand.Uint64(), 36)
	for i := range steps {
		last = chain + ";" + strconv.Itoa(i+1)
		steps[i].Args[0] = last
	}
	return last
}
