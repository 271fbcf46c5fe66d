package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestScriptTimesKeepTheSlowest(t *testing.T) {
	names := map[string]string{"aa": "add", "bb": "drop", "cc": "merge"}
	call := func(took time.Duration, args ...string) redis.SlowLog {
		return redis.SlowLog{Duration: took, Args: args}
	}
	var s luaScriptTimes
	s.addSlowLog([]redis.SlowLog{
		call(300*time.Microsecond, "evalsha", "aa", "1"), call(2*time.Millisecond, "EVALSHA", "BB", "1"), call(900*time.Microsecond, "EVALSHA", "bb"),
		call(time.Second, "KEYS", "*"), call(time.Second, "EVALSHA", "unknown"), call(time.Second, "EVALSHA"),
	}, names)
	s.addSlowLog([]redis.SlowLog{call(time.Millisecond, "EVALSHA", "bb")}, names)
	if name, longest, over := s.slowestScript(); name != "drop" || longest != 2*time.Millisecond || over != 2 {
		t.Errorf("%s %v, %d beyond", name, longest, over)
	}
	want := []string{"drop: 2.00 ms (2 beyond 1.00 ms)", "add: 0.30 ms", "merge: under 0.20 ms"}
	if got := s.formatLines(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if s.slowestTrivialCall != 0 {
		t.Errorf("no trivial command was slow, and not %v", s.slowestTrivialCall)
	}
	s.addSlowLog([]redis.SlowLog{call(3*time.Millisecond, "HMGET", "k", "f"), call(2*time.Millisecond, "ping")}, names)
	if s.slowestTrivialCall != 3*time.Millisecond || s.trivialCallsOverGoal != 2 {
		t.Errorf("the slowest trivial command: %v, and %d beyond", s.slowestTrivialCall, s.trivialCallsOverGoal)
	}
	if s.slowLogWasFull {
		t.Error("the list was not full")
	}
	s.addSlowLog(make([]redis.SlowLog, slowLogLength), names)
	if !s.slowLogWasFull {
		t.Error("a full list is not noticed")
	}
}

func TestReportScripts(t *testing.T) {
	b := &bench{report: &report{}}
	b.reportScripts()
	if got := b.report.resultLines[0]; got.whyAbsent == "" {
		t.Errorf("without any call: %+v", got)
	}
	b.luaScriptTimes.addSlowLog([]redis.SlowLog{{Duration: 1500 * time.Microsecond, Args: []string{"EVALSHA", "aa"}}}, map[string]string{"aa": "add"})
	b.luaScriptTimes.scriptCalls, b.luaScriptTimes.slowLogWasFull, b.luaScriptTimes.slowestTrivialCall = 12_000, true, 3*time.Millisecond
	b.reportScripts()
	got := b.report.resultLines[1]
	if got.value != 1.5 || got.referenceFigure != "3.00 ms" || got.ourFigure != "add; 1 of 12,000 calls beyond it" || got.goal.verdict(got.value) != "no" || len(b.report.scriptTimeLines) != 1 || len(b.report.notes) != 1 {
		t.Errorf("%+v, %q, %q", got, b.report.scriptTimeLines, b.report.notes)
	}
	b = &bench{report: &report{}}
	b.luaScriptTimes.addSlowLog(nil, map[string]string{"aa": "add"})
	b.luaScriptTimes.scriptCalls = 3
	b.reportScripts()
	if got := b.report.resultLines[0]; got.goal.verdict(got.value) != "yes" || !strings.Contains(got.ourFigure, "none over 0.20 ms") || got.referenceFigure != "under 0.20 ms" {
		t.Errorf("only quick calls: %+v", got)
	}
}

// Scripts meet the goal if, in a second of Redis' time, about as many of their calls are slow as of trivial commands.
func TestInterruptionsAreComparedPerSecond(t *testing.T) {
	for _, c := range []struct {
		over, plain int
		verdict     string
	}{{40, 10, "yes"}, {60, 10, "yes"}, {70, 10, "no"}, {4, 0, "yes"}, {5, 0, "no"}} {
		s := luaScriptTimes{scriptTotalTime: 4 * time.Second, trivialCallsOverGoal: c.plain, trivialTotalTime: time.Second}
		if got := s.callsOverGoalLine(c.over); got.goal.verdict(got.value) != c.verdict {
			t.Errorf("%d in 4 s beside %d in 1 s: %+v, want %s", c.over, c.plain, got, c.verdict)
		}
	}
	if got := new(luaScriptTimes).callsOverGoalLine(0); got.goal.verdict(got.value) != "yes" || got.ourFigure != "0.0" {
		t.Errorf("nothing ran: %+v", got)
	}
}

func TestCommandCounts(t *testing.T) {
	text := "# Commandstats\r\ncmdstat_evalsha:calls=12,usec=3,usec_per_call=0.25\r\ncmdstat_config|get:calls=7,usec=1,x=2\r\nnonsense\r\ncmdstat_x:calls=many\r\n"
	got := parseCommandStats(text)
	if len(got) != 2 || got["evalsha"] != (commandTime{12, 3 * time.Microsecond}) || got["config|get"] != (commandTime{7, time.Microsecond}) {
		t.Errorf("got %v", got)
	}
}
