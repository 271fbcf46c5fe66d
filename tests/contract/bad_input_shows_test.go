package contract

import (
	"testing"
	"time"
)

// These operations take a time, a text, an address or the ID of a show as v, and some of them a time as p.
const (
	mutSchedule          = `mutation($v:Time!){scheduleShow(input:{title:"t",plannedAt:$v}){show{id}}}`
	mutScheduleTitle     = `mutation($v:String!,$p:Time!){scheduleShow(input:{title:$v,plannedAt:$p}){show{id}}}`
	mutScheduleCover     = `mutation($v:URL!,$p:Time!){scheduleShow(input:{title:"t",coverUrl:$v,plannedAt:$p}){show{id}}}`
	mutReschedule        = `mutation($v:ID!,$p:Time!){rescheduleShow(input:{showId:$v,plannedAt:$p}){show{id}}}` // moves a show
	mutRetitle           = `mutation($v:ID!){rescheduleShow(input:{showId:$v,title:"u"}){show{id}}}`
	mutRescheduleNothing = `mutation($v:ID!){rescheduleShow(input:{showId:$v}){show{id}}}` // names no change
	mutStart             = `mutation($v:ID!){startShow(input:{showId:$v}){show{id}}}`
	mutStartAt           = `mutation($v:ID!,$p:Time!){startShow(input:{showId:$v,at:$p}){show{id}}}`
	mutEnd               = `mutation($v:ID!){endShow(input:{showId:$v}){show{id}}}`
	mutEndAt             = `mutation($v:ID!,$p:Time!){endShow(input:{showId:$v,at:$p}){show{id}}}`
	mutCancel            = `mutation($v:ID!){cancelShow(input:{showId:$v}){show{id}}}`
	mutSetReplay         = `mutation($v:ID!){setReplay(input:{showId:$v,replayUrl:"https://example.com/r"}){show{id}}}`
	mutSetReplayBadURL   = `mutation($v:ID!){setReplay(input:{showId:$v,replayUrl:"//example.com/r"}){show{id}}}`
	mutRemind            = `mutation($v:ID!){remindMe(input:{showId:$v}){show{id}}}`
)

// Impossible changes of shows, invalid values, and changes of another host's show are refused with code and reason, and have
// no effect.
func TestBadShows(t *testing.T) {
	c := newSmallNode(t, nil)
	now := c.Clock.Now()
	soon, late, past := now.Add(time.Hour), now.Add(400*24*time.Hour), now.Add(-time.Hour)
	schedule := func() (id string) {
		var got struct {
			ScheduleShow struct{ Show struct{ ID string } }
		}
		c.MustAsk("bob", mutSchedule, map[string]any{"v": soon.Format(time.RFC3339)}, &got)
		return got.ScheduleShow.Show.ID
	}
	upcoming, live, over, cancelled, pending := schedule(), schedule(), schedule(), schedule(), schedule()
	c.MustAsk("bob", mutStart, map[string]any{"v": live}, nil)
	c.MustAsk("bob", mutStart, map[string]any{"v": over}, nil)
	c.MustAsk("bob", mutEnd, map[string]any{"v": over}, nil)
	c.MustAsk("bob", mutCancel, map[string]any{"v": cancelled}, nil)
	c.MustAsk("bob", mutEnd, map[string]any{"v": pending}, nil)
	c.MustAsk("bob", `mutation{block(input:{userId:"user:carol"}){user{id}}}`, nil, nil)
	c.SettleJobsAndCaches()
	at := func(moment time.Time) string { return moment.UTC().Format(time.RFC3339) }
	none := "show:0000000000001"
	for name, bad := range map[string]struct {
		as, query string
		value     string
		moment    time.Time
		want      wantedError
	}{
		"a plan in the past":             {"bob", mutSchedule, at(past), past, wantedError{"INVALID", []string{"plannedAt", "in the past"}}},
		"a plan beyond a year":           {"bob", mutSchedule, at(late), late, wantedError{"INVALID", []string{"plannedAt", "366 days"}}},
		"a plan that is no time":         {"bob", mutSchedule, "soon", soon, wantedError{"INVALID", []string{"soon", "RFC 3339"}}},
		"no title":                       {"bob", mutScheduleTitle, "", soon, wantedError{"INVALID", []string{"title", "1 to 255"}}},
		"a title with NUL":               {"bob", mutScheduleTitle, "a\x00", soon, wantedError{"INVALID", []string{"title", "NUL"}}},
		"a cover that is no address":     {"bob", mutScheduleCover, "cover", soon, wantedError{"INVALID", []string{"coverUrl", "cover", "http"}}},
		"put off into the past":          {"bob", mutReschedule, upcoming, past, wantedError{"INVALID", []string{"plannedAt", "in the past"}}},
		"putting off a live show":        {"bob", mutReschedule, live, soon.Add(time.Hour), wantedError{"CONFLICT", []string{"plannedAt", live, "LIVE"}}},
		"putting off one that ended":     {"bob", mutReschedule, pending, soon.Add(time.Hour), wantedError{"CONFLICT", []string{"plannedAt", pending, "already reported"}}},
		"retitling a cancelled show":     {"bob", mutRetitle, cancelled, soon, wantedError{"CONFLICT", []string{"showId", cancelled, "cancelled"}}},
		"changing nothing":               {"bob", mutRescheduleNothing, upcoming, soon, wantedError{"INVALID", []string{"plannedAt", "title", "coverUrl"}}},
		"starting a cancelled show":      {"bob", mutStart, cancelled, soon, wantedError{"CONFLICT", []string{"showId", cancelled, "cancelled"}}},
		"starting before it was planned": {"bob", mutStartAt, upcoming, past, wantedError{"INVALID", []string{"at", upcoming, "before", "scheduled"}}},
		"starting in the future":         {"bob", mutStartAt, upcoming, soon, wantedError{"INVALID", []string{"at", "future"}}},
		"ending a cancelled show":        {"bob", mutEnd, cancelled, soon, wantedError{"CONFLICT", []string{"showId", cancelled, "cancelled"}}},
		"ending in the future":           {"bob", mutEndAt, live, soon, wantedError{"INVALID", []string{"at", "future"}}},
		"cancelling a live show":         {"bob", mutCancel, live, soon, wantedError{"CONFLICT", []string{"showId", live, "LIVE"}}},
		"cancelling a replay":            {"bob", mutCancel, over, soon, wantedError{"CONFLICT", []string{"showId", over, "REPLAY"}}},
		"cancelling one that ended":      {"bob", mutCancel, pending, soon, wantedError{"CONFLICT", []string{"showId", pending, "already reported"}}},
		"a replay of a cancelled show":   {"bob", mutSetReplay, cancelled, soon, wantedError{"CONFLICT", []string{"showId", cancelled, "cancelled"}}},
		"a replay that is no address":    {"bob", mutSetReplayBadURL, over, soon, wantedError{"INVALID", []string{"replayUrl", "//example.com/r"}}},
		"starting another's show":        {"alice", mutStart, upcoming, soon, wantedError{"FORBIDDEN", []string{"showId", upcoming, "not your show"}}},
		"ending another's show":          {"alice", mutEnd, live, soon, wantedError{"FORBIDDEN", []string{"showId", live, "not your show"}}},
		"cancelling another's show":      {"alice", mutCancel, upcoming, soon, wantedError{"FORBIDDEN", []string{"showId", upcoming, "not your show"}}},
		"another's replay":               {"alice", mutSetReplay, over, soon, wantedError{"FORBIDDEN", []string{"showId", over, "not your show"}}},
		"starting what never was":        {"bob", mutStart, none, soon, wantedError{"NOT_FOUND", []string{"showId", none}}},
		"starting a post":                {"bob", mutStart, c.bobsPost, soon, wantedError{"INVALID", []string{"showId", c.bobsPost, "a show"}}},
		"reminded of a live show":        {"alice", mutRemind, live, soon, wantedError{"CONFLICT", []string{"showId", live, "LIVE"}}},
		"reminded of a cancelled show":   {"alice", mutRemind, cancelled, soon, wantedError{"CONFLICT", []string{"showId", cancelled, "CANCELLED"}}},
		"reminded of one's own show":     {"bob", mutRemind, upcoming, soon, wantedError{"INVALID", []string{"showId", upcoming, "your own"}}},
		"reminded by who blocks one":     {"carol", mutRemind, upcoming, soon, wantedError{"NOT_FOUND", []string{"showId: there is no " + upcoming}}},
		"reminded of what never was":     {"alice", mutRemind, none, soon, wantedError{"NOT_FOUND", []string{"showId", none}}},
		"reminded of a user":             {"alice", mutRemind, "user:bob", soon, wantedError{"INVALID", []string{"showId", "user:bob", "a show"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.wantNoEffect(t, func(t *testing.T) {
				bad.want.checkAnswer(t, c.Ask(bad.as, bad.query, map[string]any{"v": bad.value, "p": at(bad.moment)}))
			})
		})
	}
}
