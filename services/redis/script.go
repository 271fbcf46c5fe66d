package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// maxCallsPerPipeline bounds the calls of one round trip: with more, other clients would wait while Redis executes them.
const maxCallsPerPipeline = 500

// Script is a Lua script that may be repeated: a second run changes nothing. That is a promise of its author, on which
// Run relies: it sends a round trip again when a master has lost its scripts, and callers run their jobs again.
type Script struct {
	Name   string
	Source string // the text in Lua
	// sha1 is the hex digest of Source, by which EVALSHA names the script.
	sha1 string
}

// registeredScripts are in the order of their registration; every Client loads them into its masters.
var registeredScripts []*Script

// registerScript joins the parts into a script and registers it: every Client loads it into its masters. It is for package
// variables, before the first Client; it panics if the name is taken.
func registerScript(name string, parts ...string) *Script {
	if slices.ContainsFunc(registeredScripts, func(s *Script) bool { return s.Name == name }) {
		panic(fmt.Sprintf("redis: the script %s is registered twice", name))
	}
	s := NewScript(name, strings.Join(parts, ""))
	registeredScripts = append(registeredScripts, s)
	return s
}

// scriptTextMu is held to replace a script's text, and to read the texts of all scripts: a Client may be loading them in the
// background.
var scriptTextMu sync.RWMutex

// Replace gives the script another text until restore is called: tests inject bugs with it. Nothing may run the script meanwhile.
func (s *Script) Replace(source string) (restore func()) {
	set := func(text Script) {
		scriptTextMu.Lock()
		defer scriptTextMu.Unlock()
		*s = text
	}
	good := *s
	set(*NewScript(s.Name, source))
	return func() { set(good) }
}

// NewScript makes a script that is not registered: a master that does not know it receives its text with the first call.
func NewScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{Name: name, Source: source, sha1: hex.EncodeToString(sum[:])}
}

// ScriptCall is one run of a script. All its keys have one hash tag, so that a cluster can run it.
//
// Args are texts and whole numbers: Redis hands all of them to the script as texts.
type ScriptCall struct {
	Keys []string
	Args []any
}

// Reply is a call's result: the value as Redis sends it (int64, string, []any; nil for nothing), or the call's own error,
// UNAVAILABLE if no answer came.
type Reply struct {
	Value any
	Err   error
}

// Run runs a script once for each call, in order on each master, at most 500 in a round trip. There is a reply for every call.
// The error is UNAVAILABLE and means that no call at all was answered; some calls may still have been applied. If a master does
// not know the script, its whole round trip is sent again: calls may be applied twice.
func (c *Client) Run(ctx context.Context, s *Script, calls []ScriptCall) ([]Reply, error) {
	replies := make([]Reply, 0, len(calls))
	var failure error
	answered := false
	// The parts go out one after the other: two at once would keep Redis from other clients for as long as one large part.
	for start := 0; start < len(calls); start += maxCallsPerPipeline {
		part := calls[start:min(start+maxCallsPerPipeline, len(calls))]
		got, any, err := c.runInPipeline(ctx, s, part)
		replies = append(replies, got...)
		answered = answered || any
		if !any && err != nil {
			// Redis is unreachable: each remaining round trip would wait for the same failure.
			failure = err
			for range calls[len(replies):] {
				replies = append(replies, Reply{Err: err})
			}
			break
		}
	}
	if answered || failure == nil {
		return replies, nil
	}
	return replies, fmt.Errorf("script %s: %w", s.Name, failure)
}

// runInPipeline runs calls of a script in one round trip, or in two if a master does not know the script. It reports whether anything was
// answered. Many calls wait for their turn, see bulkTurn.
func (c *Client) runInPipeline(ctx context.Context, s *Script, calls []ScriptCall) ([]Reply, bool, error) {
	if len(calls) >= minBulkCalls && c.mode != modeCluster {
		defer c.bulkTurn.wait(ctx)()
	}
	replies, missing := c.sendPipeline(ctx, len(calls), func(p redis.Pipeliner, i int) { p.EvalSha(ctx, s.sha1, calls[i].Keys, calls[i].Args...) })
	// All calls of the part are sent again, with the text: it is not known which of them have run.
	if missing {
		c.reloadScripts()
		again, _ := c.sendPipeline(ctx, len(calls), func(p redis.Pipeliner, i int) { p.Eval(ctx, s.Source, calls[i].Keys, calls[i].Args...) })
		for i := range replies {
			// The first answer of an applied call says what it changed; its repetition changed nothing.
			if replies[i].Err != nil {
				replies[i] = again[i]
			}
		}
	}
	answered, failure := mapErrors(replies)
	return replies, answered, failure
}

// mapErrors maps the errors of replies. It reports whether there was any answer, and returns the last error.
func mapErrors(replies []Reply) (answered bool, failure error) {
	for i := range replies {
		if err := MapError(replies[i].Err); err != nil {
			replies[i].Err = err
			failure = err
		}
		answered = answered || !unanswered(replies[i].Err)
	}
	return answered, failure
}

// sendPipeline sends the commands that queue adds, count of them, in one round trip. It reports whether a script was missing.
func (c *Client) sendPipeline(ctx context.Context, count int, queue func(p redis.Pipeliner, i int)) (replies []Reply, missing bool) {
	commands, err := c.exec(ctx, func(p redis.Pipeliner) {
		for i := range count {
			queue(p, i)
		}
	})
	replies = make([]Reply, count)
	for i := range replies {
		// A pipeline that could not be sent has no commands: every call gets its error.
		if i >= len(commands) {
			replies[i].Err = err
			continue
		}
		replies[i].Value, replies[i].Err = commands[i].(*redis.Cmd).Result()
		if errors.Is(replies[i].Err, redis.Nil) {
			// A script that returns nil is no error: the reply has neither value nor error.
			replies[i] = Reply{}
		}
		missing = missing || redis.HasErrorPrefix(replies[i].Err, "NOSCRIPT")
	}
	return replies, missing
}

// Pipeline sends the commands that fill queues in one round trip (on a cluster one to each master, concurrently). The commands
// are returned in order, answered or not. The error is the first error of a command, and UNAVAILABLE if Redis did not answer. A
// missing key is not an error of the pipeline, but redis.Nil in its command.
func (c *Client) Pipeline(ctx context.Context, fill func(p redis.Pipeliner)) ([]redis.Cmder, error) {
	commands, err := c.exec(ctx, fill)
	if err == nil {
		return commands, nil
	}
	for _, command := range commands {
		if err := command.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return commands, MapError(err)
		}
	}
	if errors.Is(err, redis.Nil) {
		return commands, nil
	}
	return commands, MapError(err)
}

// exec sends the commands that fill queues, once.
func (c *Client) exec(ctx context.Context, fill func(p redis.Pipeliner)) ([]redis.Cmder, error) {
	pipe := c.redis.Pipeline()
	fill(pipe)
	if c.mode != modeCluster {
		return pipe.Exec(ctx)
	}
	// On a cluster each command is wrapped, so that go-redis neither repeats it nor loses its answer.
	commands := pipe.Cmds()
	single := c.redis.Pipeline()
	for _, command := range commands {
		_ = single.Process(ctx, &keepFirstAnswerCmd{noRetryCmd: noRetryCmd{command}})
	}
	_, err := single.Exec(ctx)
	return commands, err
}

// noRetryCmd is a command that the cluster client sends to a master one time (and then to another, if a slot has moved). By default
// the cluster client tries a silent master four times, and if the deadline comes meanwhile it treats the other masters' answers as
// lost.
type noRetryCmd struct{ redis.Cmder }

// NoRetry tells go-redis not to repeat the command.
func (noRetryCmd) NoRetry() bool { return true }

// keepFirstAnswerCmd is a command of the type noRetryCmd in a pipeline over several masters. If one master is unreachable, the cluster
// client repeats the pipeline. If the deadline passes meanwhile, the client overwrites the answers of the other masters with the
// error of the deadline. keepFirstAnswerCmd keeps those answers.
type keepFirstAnswerCmd struct {
	noRetryCmd
	answered bool // an answer has come: SetErr was called with nil
}

// SetErr stores errors until it is called with nil, which stands for an answer. An error after that does not replace the answer.
func (a *keepFirstAnswerCmd) SetErr(err error) {
	if a.answered {
		return
	}
	a.answered = err == nil
	a.noRetryCmd.SetErr(err)
}

// loadScripts loads the registered scripts into every master, one round trip each.
func (c *Client) loadScripts(ctx context.Context) error {
	// An EVALSHA before the load finds no script, and is sent again with its text: the load only saves this second sending.
	load := func(ctx context.Context, master *redis.Client) error {
		if len(registeredScripts) == 0 {
			return nil
		}
		_, err := master.Pipelined(ctx, func(p redis.Pipeliner) error {
			scriptTextMu.RLock()
			defer scriptTextMu.RUnlock()
			for _, s := range registeredScripts {
				p.ScriptLoad(ctx, s.Source)
			}
			return nil
		})
		return MapError(err)
	}
	return c.EachMaster(ctx, load)
}

// EachMaster runs a function on every master: the only one, or all masters of a cluster at once. The function must therefore be safe
// for concurrent use. The error is the first one.
func (c *Client) EachMaster(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	switch client := c.redis.(type) {
	case *redis.ClusterClient:
		return client.ForEachMaster(ctx, do)
	case *redis.Client:
		return do(ctx, client)
	}
	return fmt.Errorf("redis: %T has no masters", c.redis)
}

// reloadScripts loads all scripts into all masters again, and raises their settings, in the background: a master that does not know one
// script has been restarted, flushed or newly elected, and knows none. It runs once at a time.
func (c *Client) reloadScripts() {
	// Close must not begin to wait between the check and the start of the work.
	c.closingMu.Lock()
	defer c.closingMu.Unlock()
	if c.ctx.Err() != nil || !c.loadingScripts.CompareAndSwap(false, true) {
		return
	}
	c.backgroundWork.Go(func() {
		defer c.loadingScripts.Store(false)
		ctx, cancel := context.WithTimeout(c.ctx, loadScriptsTimeout)
		defer cancel()
		if err := c.loadScripts(ctx); err != nil && c.ctx.Err() == nil {
			c.log.Warn("the scripts could not be loaded: until they are, each call sends its whole script", "error", err)
			return
		}
		// A new master also lacks the settings.
		c.raiseListpackSettings(ctx)
	})
}

// Scripts are the registered scripts, in the order of their registration: for tests, which change them by Replace, and for measurements.
func Scripts() []*Script { return slices.Clone(registeredScripts) }
