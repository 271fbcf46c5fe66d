package main

import (
	"cmp"
	"context"
	"crypto/sha1"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	tidingsredis "tidings/services/redis"
)

// Redis keeps a log of slow calls (SLOWLOG). It is read after each row, because calls of the next row could displace its entries.
const (
	slowLogThreshold = 200 * time.Microsecond // a call that took less is not in the log
	slowLogLength    = 50_000                 // how many calls Redis keeps between two readings
	scriptTimeGoal   = time.Millisecond       // the goal: every call of a script takes less
)

// luaScriptTime says how long the calls of one Lua script took, by Redis' log of slow calls.
type luaScriptTime struct {
	slowestCall   time.Duration // the time of the slowest call
	callsOverGoal int           // how many calls took scriptTimeGoal or longer
}

// luaScriptTimes says how long the calls of Lua scripts and of trivial commands took, by Redis' log of slow calls and its statistics,
// in all rows so far.
type luaScriptTimes struct {
	timeByName           map[string]luaScriptTime // by the name of the script
	scriptCalls          int                      // how many calls of all scripts there were
	scriptTotalTime      time.Duration            // the time that Redis spent on these calls
	slowestTrivialCall   time.Duration            // the slowest call of a trivial command
	trivialCallsOverGoal int                      // how many calls of trivial commands took scriptTimeGoal or longer
	trivialTotalTime     time.Duration            // the time that Redis spent on all trivial commands
	slowLogWasFull       bool                     // whether Redis may have dropped some calls from its log
}

// trivialCommands are commands that do almost no work: if one is slow, another program had the processor.
var trivialCommands = []string{"get", "set", "hget", "hgetall", "hmget", "ping", "publish"}

// collectFromRedis reads Redis' log of slow calls and its statistics, and empties the log.
func (s *luaScriptTimes) collectFromRedis(ctx context.Context, client *redis.Client) error {
	entries, err := client.SlowLogGet(ctx, slowLogLength).Result()
	if err != nil {
		return err
	}
	s.addSlowLog(entries, scriptNames())
	text, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		return err
	}
	counts := parseCommandStats(text)
	s.scriptCalls, s.scriptTotalTime = counts["evalsha"].calls+counts["eval"].calls, counts["evalsha"].totalTime+counts["eval"].totalTime
	s.trivialTotalTime = 0
	for _, name := range trivialCommands {
		s.trivialTotalTime += counts[name].totalTime
	}
	return client.SlowLogReset(ctx).Err()
}

// scriptNames maps the SHA-1 of every script to its name, because the log of slow calls shows only the SHA-1.
func scriptNames() map[string]string {
	names := map[string]string{}
	for _, script := range tidingsredis.Scripts() {
		names[fmt.Sprintf("%x", sha1.Sum([]byte(script.Source)))] = script.Name
	}
	return names
}

// addSlowLog adds the entries of Redis' log of slow calls: calls of scripts and of trivial commands. names has the scripts' names by
// SHA-1.
func (s *luaScriptTimes) addSlowLog(entries []redis.SlowLog, names map[string]string) {
	if s.timeByName == nil {
		s.timeByName = map[string]luaScriptTime{}
		for name := range maps.Values(names) {
			s.timeByName[name] = luaScriptTime{}
		}
	}
	s.slowLogWasFull = s.slowLogWasFull || len(entries) >= slowLogLength
	for _, entry := range entries {
		if len(entry.Args) > 0 && slices.Contains(trivialCommands, strings.ToLower(entry.Args[0])) {
			s.slowestTrivialCall = max(s.slowestTrivialCall, entry.Duration)
			if entry.Duration >= scriptTimeGoal {
				s.trivialCallsOverGoal++
			}
		}
		name := scriptName(entry.Args, names)
		if name == "" {
			continue
		}
		time := s.timeByName[name]
		time.slowestCall = max(time.slowestCall, entry.Duration)
		if entry.Duration >= scriptTimeGoal {
			time.callsOverGoal++
		}
		s.timeByName[name] = time
	}
}

// scriptName returns which of our scripts a command ran; "" for none.
func scriptName(args []string, names map[string]string) string {
	if len(args) < 2 || !strings.EqualFold(args[0], "evalsha") {
		return ""
	}
	return names[strings.ToLower(args[1])]
}

// slowestScript returns the script with the slowest call, the time of that call, and how many calls of all scripts took scriptTimeGoal
// or longer.
func (s *luaScriptTimes) slowestScript() (name string, longest time.Duration, over int) {
	for one, time := range s.timeByName {
		over += time.callsOverGoal
		if time.slowestCall > longest {
			name, longest = one, time.slowestCall
		}
	}
	return name, longest, over
}

// formatLines returns one line of text for each script with the time of its slowest call, the slowest script first.
func (s *luaScriptTimes) formatLines() (rows []string) {
	names := slices.SortedFunc(maps.Keys(s.timeByName), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.timeByName[b].slowestCall, s.timeByName[a].slowestCall), strings.Compare(a, b))
	})
	for _, name := range names {
		row := name + ": under " + formatMilliseconds(slowLogThreshold)
		if time := s.timeByName[name]; time.slowestCall > 0 {
			row = fmt.Sprintf("%s: %s", name, formatMilliseconds(time.slowestCall))
			if time.callsOverGoal > 0 {
				row += fmt.Sprintf(" (%d beyond %s)", time.callsOverGoal, formatMilliseconds(scriptTimeGoal))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// reportScripts reports the last row: the slowest calls of the scripts in all earlier rows.
func (b *bench) reportScripts() {
	l := resultLine{measurement: "the slowest call of every script", reference: "the slowest plain command, which does next to nothing", goal: atMost(1, "< 1 ms"), unit: "ms"}
	if b.luaScriptTimes.scriptCalls == 0 {
		l.whyAbsent = "no other row ran a script"
		b.report.resultLines = append(b.report.resultLines, l)
		return
	}
	name, longest, over := b.luaScriptTimes.slowestScript()
	l.value = float64(longest) / float64(time.Millisecond)
	l.ourFigure = fmt.Sprintf("%s; %d of %s calls beyond it", cmp.Or(name, "none over "+formatMilliseconds(slowLogThreshold)), over, formatThousands(int64(b.luaScriptTimes.scriptCalls)))
	l.referenceFigure = "under " + formatMilliseconds(slowLogThreshold)
	if b.luaScriptTimes.slowestTrivialCall > 0 {
		l.referenceFigure = formatMilliseconds(b.luaScriptTimes.slowestTrivialCall)
	}
	b.report.resultLines = append(b.report.resultLines, l, b.luaScriptTimes.callsOverGoalLine(over))
	b.report.scriptTimeLines = b.luaScriptTimes.formatLines()
	if b.luaScriptTimes.slowLogWasFull {
		b.report.notes = append(b.report.notes, "Redis' list of slow calls was full once: some may be missing from the scripts' times.")
	}
}

// callsOverGoalLine compares how often calls of scripts and of trivial commands take longer than the goal, for each second that
// Redis spent on them. Other programs take the processor from Redis during any command, so only the excess over trivial commands is
// the scripts' own.
func (s *luaScriptTimes) callsOverGoalLine(over int) resultLine {
	rate := func(over int, took time.Duration) float64 {
		return float64(over) / max(took, time.Millisecond).Seconds()
	}
	ours, plain := rate(over, s.scriptTotalTime), rate(s.trivialCallsOverGoal, s.trivialTotalTime)
	return resultLine{
		measurement: "calls of scripts beyond 1 ms, in a second of Redis' time", reference: "plain commands, which do next to nothing",
		ourFigure: fmt.Sprintf("%.1f", ours), referenceFigure: fmt.Sprintf("%.1f", plain), value: ours - plain, unit: "more",
		goal: atMost(1+plain/2, "as many: at most half as many again, and one more"),
	}
}

// commandTime is Redis' statistics of a command: the number of calls, and their total time.
type commandTime struct {
	calls     int
	totalTime time.Duration
}

// parseCommandStats parses the answer of INFO commandstats, and returns the statistics by command.
func parseCommandStats(text string) map[string]commandTime {
	counts := map[string]commandTime{}
	for row := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(row), "cmdstat_"), ":")
		var calls, micros int
		if _, err := fmt.Sscanf(rest, "calls=%d,usec=%d,", &calls, &micros); err == nil {
			counts[name] = commandTime{calls: calls, totalTime: time.Duration(micros) * time.Microsecond}
		}
	}
	return counts
}
