package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	tidingsredis "tidings/services/redis"
)

// Redis keeps a log of slow calls. It is read after each row, because the calls of the next row could displace its entries.
const (
	slowFrom       = 200 * time.Microsecond // a call that took less is not listed
	slowKept       = 50_000                 // how many calls Redis keeps between two readings
	scriptTimeGoal = time.Millisecond       // the goal: every call of a script takes less
)

// scriptTime has the times of one script in the log.
type scriptTime struct {
	slowest time.Duration // the time of the slowest call
	over    int           // calls beyond the goal
}

// scriptTimes has what was read from the log and the statistics so far.
type scriptTimes struct {
	names     map[string]scriptTime // by the name of the script
	calls     int                   // how many calls of all scripts there were
	took      time.Duration         // the time that Redis spent on these calls
	plain     time.Duration         // the slowest plain command
	plainOver int                   // calls of plain commands beyond the goal
	plainTook time.Duration         // the time that Redis spent on all plain commands
	full      bool                  // whether Redis may have dropped some calls from its log
}

// plainCommands are commands that do almost no work: if one is slow, another program had the processor.
var plainCommands = []string{"get", "set", "hget", "hgetall", "hmget", "ping", "publish"}

// collect reads the log and Redis' statistics, and empties the log.
func (s *scriptTimes) collect(ctx context.Context, client *redis.Client) error {
	entries, err := client.SlowLogGet(ctx, slowKept).Result()
	if err != nil {
		return err
	}
	s.add(entries, tidingsredis.ScriptNames())
	text, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		return err
	}
	counts := commandCounts(text)
	s.calls, s.took = counts["evalsha"].calls+counts["eval"].calls, counts["evalsha"].took+counts["eval"].took
	s.plainTook = 0
	for _, name := range plainCommands {
		s.plainTook += counts[name].took
	}
	return client.SlowLogReset(ctx).Err()
}

// add adds the entries of the log: calls of scripts and of plain commands. names has the scripts' names by SHA-1.
func (s *scriptTimes) add(entries []redis.SlowLog, names map[string]string) {
	if s.names == nil {
		s.names = map[string]scriptTime{}
		for name := range maps.Values(names) {
			s.names[name] = scriptTime{}
		}
	}
	s.full = s.full || len(entries) >= slowKept
	for _, entry := range entries {
		if len(entry.Args) > 0 && slices.Contains(plainCommands, strings.ToLower(entry.Args[0])) {
			s.plain = max(s.plain, entry.Duration)
			if entry.Duration >= scriptTimeGoal {
				s.plainOver++
			}
		}
		name := scriptName(entry.Args, names)
		if name == "" {
			continue
		}
		time := s.names[name]
		time.slowest = max(time.slowest, entry.Duration)
		if entry.Duration >= scriptTimeGoal {
			time.over++
		}
		s.names[name] = time
	}
}

// scriptName returns which of our scripts a command ran; "" for none.
func scriptName(args []string, names map[string]string) string {
	if len(args) < 2 || !strings.EqualFold(args[0], "evalsha") {
		return ""
	}
	return names[strings.ToLower(args[1])]
}

// slowest returns the script with the slowest call, and how many calls of all scripts were beyond the goal.
func (s *scriptTimes) slowest() (name string, longest time.Duration, over int) {
	for one, time := range s.names {
		over += time.over
		if time.slowest > longest {
			name, longest = one, time.slowest
		}
	}
	return name, longest, over
}

// list returns one line of text for each script, the slowest first.
func (s *scriptTimes) list() (rows []string) {
	names := slices.SortedFunc(maps.Keys(s.names), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.names[b].slowest, s.names[a].slowest), strings.Compare(a, b))
	})
	for _, name := range names {
		row := name + ": under " + formatMilliseconds(slowFrom)
		if time := s.names[name]; time.slowest > 0 {
			row = fmt.Sprintf("%s: %s", name, formatMilliseconds(time.slowest))
			if time.over > 0 {
				row += fmt.Sprintf(" (%d beyond %s)", time.over, formatMilliseconds(scriptTimeGoal))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// reportScripts reports the last row: the slowest calls of the scripts in all earlier rows.
func (b *bench) reportScripts() {
	l := line{what: "the slowest call of every script", limit: "the slowest plain command, which does next to nothing", goal: atMost(1, "< 1 ms"), unit: "ms"}
	if b.scripts.calls == 0 {
		l.whyAbsent = "no other row ran a script"
		b.report.lines = append(b.report.lines, l)
		return
	}
	name, longest, over := b.scripts.slowest()
	l.value = float64(longest) / float64(time.Millisecond)
	l.ours = fmt.Sprintf("%s; %d of %s calls beyond it", cmp.Or(name, "none over "+formatMilliseconds(slowFrom)), over, formatThousands(int64(b.scripts.calls)))
	l.theirs = "under " + formatMilliseconds(slowFrom)
	if b.scripts.plain > 0 {
		l.theirs = formatMilliseconds(b.scripts.plain)
	}
	b.report.lines = append(b.report.lines, l, b.scripts.interruptions(over))
	b.report.scriptLines = b.scripts.list()
	if b.scripts.full {
		b.report.notes = append(b.report.notes, "Redis' list of slow calls was full once: some may be missing from the scripts' times.")
	}
}

// interruptions compares how often calls of scripts and of plain commands take longer than the goal, for each second that Redis spent
// on them. Other programs take the processor from Redis during any command, so only the excess over plain commands is the scripts' own.
func (s *scriptTimes) interruptions(over int) line {
	rate := func(over int, took time.Duration) float64 {
		return float64(over) / max(took, time.Millisecond).Seconds()
	}
	ours, plain := rate(over, s.took), rate(s.plainOver, s.plainTook)
	return line{
		what: "calls of scripts beyond 1 ms, in a second of Redis' time", limit: "plain commands, which do next to nothing",
		ours: fmt.Sprintf("%.1f", ours), theirs: fmt.Sprintf("%.1f", plain), value: ours - plain, unit: "more",
		goal: atMost(1+plain/2, "as many: at most half as many again, and one more"),
	}
}

// commandTime is Redis' statistics of a command: the number of calls, and their total time.
type commandTime struct {
	calls int
	took  time.Duration
}

// commandCounts parses the answer of INFO commandstats, and returns the statistics by command.
func commandCounts(text string) map[string]commandTime {
	counts := map[string]commandTime{}
	for row := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(row), "cmdstat_"), ":")
		var calls, micros int
		if _, err := fmt.Sscanf(rest, "calls=%d,usec=%d,", &calls, &micros); err == nil {
			counts[name] = commandTime{calls: calls, took: time.Duration(micros) * time.Microsecond}
		}
	}
	return counts
}
