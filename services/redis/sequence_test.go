package redis

import (
	"testing"

	"tidings/services"
	"tidings/services/redis/redistest"
)

// A step's own error stands in its reply, and the steps around it are applied. The errors have the codes of Reply.
func TestASequenceGoesOnAfterAStepThatFails(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		c := connect(t, Options{URL: url})
		step := func(args ...any) SequenceStep { return SequenceStep{ScriptCall: ScriptCall{Args: args}} }
		replies, err := c.RunSequence(t.Context(), []SequenceStep{
			step("SADD", "{u1}:set", "a"), step("GET", "{u1}:set"), step("SCARD", "{u1}:set"),
			{Script: setScript, ScriptCall: ScriptCall{Keys: []string{"{u1}"}, Args: []any{7}}},
		})
		if err != nil || len(replies) != 4 {
			t.Fatalf("%d replies, %v", len(replies), err)
		}
		if !IsWrongType(replies[1].Err) || services.IsUnavailable(replies[1].Err) {
			t.Errorf("the step on a set: %v", replies[1].Err)
		}
		if replies[2].Err != nil || replies[2].Value != int64(1) || replies[3].Err != nil || replies[3].Value != "7" {
			t.Errorf("the steps after it: %+v", replies[2:])
		}
	})
}

// A sequence that is not answered is UNAVAILABLE, for itself and for each of its steps.
func TestAnUnansweredSequenceIsUnavailable(t *testing.T) {
	c := connect(t, Options{URL: "embedded"})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	replies, err := c.RunSequence(t.Context(), []SequenceStep{{ScriptCall: ScriptCall{Args: []any{"GET", "{u1}:a"}}}, {ScriptCall: ScriptCall{Args: []any{"GET", "{u1}:b"}}}})
	if !services.IsUnavailable(err) || len(replies) != 2 {
		t.Fatalf("%d replies, %v", len(replies), err)
	}
	for i, reply := range replies {
		if !services.IsUnavailable(reply.Err) {
			t.Errorf("reply %d: %v", i, reply.Err)
		}
	}
}
