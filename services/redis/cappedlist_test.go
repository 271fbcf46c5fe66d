package redis

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tidings/services/redis/redistest"
)

// cappedListProbe adds entries to a capped list, as the scripts of features do, and cuts it. ARGV are the form of the list, keep, slack,
// and pairs: position, entry. It returns the floor, and how many entries were cut if the floor is a text.
const cappedListProbe = `
local isText, keep, slack, floor = ARGV[1] == 'text', tonumber(ARGV[2]), tonumber(ARGV[3])
if isText then
  floor = redis.call('ZRANGE', KEYS[1], 0, 0)[1]:sub(2)
else
  floor = -1 - tonumber(redis.call('ZSCORE', KEYS[1], '!f'))
end
for k = 4, #ARGV, 2 do
  if isText and ARGV[k] > floor then redis.call('ZADD', KEYS[1], 0, ARGV[k] .. ARGV[k + 1]) end
  if not isText and tonumber(ARGV[k]) > floor then redis.call('ZADD', KEYS[1], ARGV[k], '=' .. ARGV[k + 1]) end
end
local marks, mark = isText and 1 or 3, isText and '!' or '!f'
local after, cut = trimList(KEYS[1], marks, mark, floor, keep, slack)
return { tostring(after or floor), isText and cut and #cut or 0 }
`

// cappedListSource is the text of the probe, after the engine's libraries.
var cappedListSource = sharedLua + ScriptFiles{engineLuaFiles}.FileText(CappedListPart) + cappedListProbe

// cappedListKeep is how many entries the list under test keeps.
const cappedListKeep = 10

// cappedEntry is an entry of the model. Several entries may have one position.
type cappedEntry struct {
	position int
	name     string
}

// cappedListTest compares a capped list of one form in Redis with a model, a sorted slice.
type cappedListTest struct {
	context.Context
	client  *Client
	script  *Script
	isText  bool
	random  *rand.Rand
	key     string
	entries []cappedEntry // the oldest first
	floor   int
	named   int // how many names were given to entries
}

// positionText prints a position as the list has it.
func (l *cappedListTest) positionText(position int) string {
	if l.isText {
		return fmt.Sprintf("%04d", position)
	}
	return strconv.Itoa(position)
}

// member is the member and the score of an entry.
func (l *cappedListTest) member(entry cappedEntry) Z {
	if l.isText {
		return Z{Member: l.positionText(entry.position) + entry.name}
	}
	return Z{Score: float64(entry.position), Member: "=" + entry.name}
}

// members are what the list must be by the model.
func (l *cappedListTest) members() []Z {
	list := []Z{{Score: -6000, Member: "!r"}, {Score: -5000, Member: "!e"}, {Score: float64(-1 - l.floor), Member: "!f"}}
	if l.isText {
		list = []Z{{Member: "!" + l.positionText(l.floor)}}
	}
	for _, entry := range l.entries {
		list = append(list, l.member(entry))
	}
	return list
}

// newEntries makes up to 12 entries, of which some are older than others that were made before.
func (l *cappedListTest) newEntries(top int) []cappedEntry {
	entries := make([]cappedEntry, l.random.IntN(13))
	for i := range entries {
		l.named++
		entries[i] = cappedEntry{max(0, top-12+l.random.IntN(16)), fmt.Sprintf("n%03d", l.named)}
	}
	return entries
}

// insert puts an entry into the model.
func (l *cappedListTest) insert(entry cappedEntry) {
	at, _ := slices.BinarySearchFunc(l.entries, entry, func(a, b cappedEntry) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.name, b.name))
	})
	l.entries = slices.Insert(l.entries, at, entry)
}

// cut cuts the model as the list must be cut, and returns how many entries went.
func (l *cappedListTest) cut(slack int) int {
	if len(l.entries) <= cappedListKeep+2*slack {
		return 0
	}
	many := len(l.entries) - cappedListKeep - slack
	l.floor = max(l.floor, l.entries[many-1].position)
	l.entries = l.entries[many:]
	return many
}

// step adds entries and cuts the list, and compares it with the model. Sometimes something else has written an entry that is not above
// the floor.
func (l *cappedListTest) step(top, slack int) error {
	if l.random.IntN(3) == 0 && l.floor > 0 {
		stray := cappedEntry{l.random.IntN(l.floor + 1), "stray" + strconv.Itoa(top)}
		if err := l.client.Commands().ZAdd(l, l.key, l.member(stray)).Err(); err != nil {
			return err
		}
		l.insert(stray)
	}
	args := []any{map[bool]string{true: "text", false: "number"}[l.isText], cappedListKeep, slack}
	floorBefore := l.floor
	for _, entry := range l.newEntries(top) {
		args = append(args, l.positionText(entry.position), entry.name)
		if entry.position > floorBefore {
			l.insert(entry)
		}
	}
	many := l.cut(slack)
	replies, err := l.client.Run(l, l.script, []ScriptCall{{Keys: []string{l.key}, Args: args}})
	if err != nil || replies[0].Err != nil {
		return fmt.Errorf("the script: %v, %v", err, replies)
	}
	returned := []any{l.positionText(l.floor), int64(0)}
	if l.isText {
		returned[1] = int64(many)
	}
	if want := fmt.Sprint(returned); fmt.Sprint(replies[0].Value) != want {
		return fmt.Errorf("it returns %v, want %s", replies[0].Value, want)
	}
	list, err := l.client.Commands().ZRangeWithScores(l, l.key, 0, -1).Result()
	if want := l.members(); err != nil || !slices.Equal(list, want) {
		return fmt.Errorf("after a cut of %d the list is\n%v, want\n%v, %v", many, list, want, err)
	}
	return nil
}

// runCappedList runs a history of a new list of either form. The same number gives the same history.
func runCappedList(ctx context.Context, client *Client, script *Script, number uint64) error {
	for _, isText := range []bool{true, false} {
		l := &cappedListTest{Context: ctx, client: client, script: script, isText: isText, random: rand.New(rand.NewPCG(number, 0))}
		l.key, l.floor = fmt.Sprintf("{list}:%d:%t", number, isText), map[bool]int{true: 0, false: -1}[isText]
		if err := client.Commands().Del(ctx, l.key).Err(); err != nil {
			return err
		}
		if err := client.Commands().ZAdd(ctx, l.key, l.members()...).Err(); err != nil {
			return err
		}
		for top := range 60 {
			if err := l.step(top, []int{0, 4, 4, 4}[l.random.IntN(4)]); err != nil {
				return fmt.Errorf("history %d, text %t, step %d: %w", number, isText, top, err)
			}
		}
	}
	return nil
}

// A capped list is its newest entries, with some slack, above a floor that never falls: the position of the newest entry cut.
func TestACappedListIsItsNewestEntries(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		client, script := connect(t, Options{URL: url}), NewScript("capped list", cappedListSource)
		for number := range uint64(10) {
			if err := runCappedList(t.Context(), client, script, number); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Each injected bug replaces a text of the library.
func TestTheHistoriesOfCappedListsFindEveryInjectedBug(t *testing.T) {
	client := connect(t, Options{URL: redistest.Redis(t)})
	for name, bug := range map[string]struct{ old, new string }{
		"a floor at the oldest entry left, as a text":  {"redis.call('ZRANGE', list, marks, last)", "redis.call('ZRANGE', list, marks + 1, last + 1)"},
		"a floor at the oldest entry left, as a score": {"list, last, last, 'WITHSCORES'", "list, last + 1, last + 1, 'WITHSCORES'"},
		"a floor at the oldest entry cut":              {"cut[many]", "cut[1]"},
		"a floor that stays":                           {"if newest > floor then floor = newest end", ""},
		"a floor that falls":                           {"if newest > floor then floor = newest end", "floor = newest"},
		"a floor that is not written":                  {"redis.call('ZADD', list, string.format('%.0f', -1 - floor), mark)", ""},
		"a mark that stays beside the new one":         {"'ZREMRANGEBYRANK', list, 0, last", "'ZREMRANGEBYRANK', list, marks, last"},
		"marks that count as entries":                  {"redis.call('ZCARD', list) - marks", "redis.call('ZCARD', list)"},
		"a cut with each add":                          {"if many <= slack then", "if many <= 0 then"},
		"a cut that leaves no slack":                   {"- keep - slack", "- keep"},
		"a cut that leaves one too many":               {"marks + many - 1", "marks + many - 2"},
		"a cut of all entries at the floor":            {"'ZREMRANGEBYRANK', list, marks, last", "'ZREMRANGEBYSCORE', list, 0, newest"},
	} {
		if strings.Count(cappedListSource, bug.old) != 1 {
			t.Errorf("%s: the library does not have %q once", name, bug.old)
			continue
		}
		script, found := NewScript(name, strings.Replace(cappedListSource, bug.old, bug.new, 1)), error(nil)
		for number := uint64(0); number < 10 && found == nil; number++ {
			found = runCappedList(t.Context(), client, script, number)
		}
		if found == nil {
			t.Errorf("%s: no history finds it", name)
		}
	}
}
