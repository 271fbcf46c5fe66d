package contract

import (
	"testing"
	"time"
)

const (
	mutSchedule   = `mutation($v:Time!){scheduleShow(input:{title:"t",plannedAt:$v}){show{id}}}`
	mutTitled     = `mutation($v:String!,$p:Time!){scheduleShow(input:{title:$v,plannedAt:$p}){show{id}}}`
	mutCovered    = `mutation($v:URL!,$p:Time!){scheduleShow(input:{title:"t",coverUrl:$v,plannedAt:$p}){show{id}}}`
	mutReschedule = `mutation($v:ID!,$p:Time!){rescheduleShow(input:{showId:$v,plannedAt:$p}){show{id}}}` // moves a show
	mutRetitle    = `mutation($v:ID!){rescheduleShow(input:{showId:$v,title:"u"}){show{id}}}`
	mutNothing    = `mutation($v:ID!){rescheduleShow(input:{showId:$v}){show{id}}}` // names no change
	mutStart      = `mutation($v:ID!){startShow(input:{showId:$v}){show{id}}}`
	mutStartAt    = `mutation($v:ID!,$p:Time!){startShow(input:{showId:$v,at:$p}){show{id}}}`
	mutEnd        = `mutation($v:ID!){endShow(input:{showId:$v}){show{id}}}`
	mutEndAt      = `mutation($v:ID!,$p:Time!){endShow(input:{showId:$v,at:$p}){show{id}}}`
	mutCancel     = `mutation($v:ID!){cancelShow(input:{showId:$v}){show{id}}}`
	mutReplay     = `mutation($v:ID!){setReplay(input:{showId:$v,replayUrl:"https://example.com/r"}){show{id}}}`
	mutBadURL     = `mutation($v:ID!){setReplay(input:{showId:$v,replayUrl:"//example.com/r"}){show{id}}}`
	mutRemind     = `mutation($v:ID!){remindMe(input:{showId:$v}){show{id}}}`
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
		c.Must("bob", mutSchedule, map[string]any{"v": soon.Format(time.RFC3339)}, &got)
		return got.ScheduleShow.Show.ID
	}
	upcoming, live, over, cancelled, pending := schedule(), schedule(), schedule(), schedule(), schedule()
	c.Must("bob", mutStart, map[string]any{"v": live}, nil)
	c.Must("bob", mutStart, map[string]any{"v": over}, nil)
	c.Must("bob", mutEnd, map[string]any{"v": over}, nil)
	c.Must("bob", mutCancel, map[string]any{"v": cancelled}, nil)
	c.Must("bob", mutEnd, map[string]any{"v": pending}, nil)
	c.Must("bob", `mutation{block(input:{userId:"user:carol"}){user{id}}}`, nil, nil)
	c.Settle()
	at := func(moment time.Time) string { return moment.UTC().Format(time.RFC3339) }
	none := "show:0000000000001"
	for name, bad := range map[string]struct {
		as, query string
		value     string
		moment    time.Time
		want      refusal
	}{
		"a plan in the past":             {"bob", mutSchedule, at(past), past, refusal{"INVALID", []string{"plannedAt", "in the past"}}},
		"a plan beyond a year":           {"bob", mutSchedule, at(late), late, refusal{"INVALID", []string{"plannedAt", "366 days"}}},
		"a plan that is no time":         {"bob", mutSchedule, "soon", soon, refusal{"INVALID", []string{"soon", "RFC 3339"}}},
		"no title":                       {"bob", mutTitled, "", soon, refusal{"INVALID", []string{"title", "1 to 255"}}},
		"a title with NUL":               {"bob", mutTitled, "a\x00", soon, refusal{"INVALID", []string{"title", "NUL"}}},
		"a cover that is no address":     {"bob", mutCovered, "cover", soon, refusal{"INVALID", []string{"coverUrl", "cover", "http"}}},
		"put off into the past":          {"bob", mutReschedule, upcoming, past, refusal{"INVALID", []string{"plannedAt", "in the past"}}},
		"putting off a live show":        {"bob", mutReschedule, live, soon.Add(time.Hour), refusal{"CONFLICT", []string{"plannedAt", live, "LIVE"}}},
		"putting off one that ended":     {"bob", mutReschedule, pending, soon.Add(time.Hour), refusal{"CONFLICT", []string{"plannedAt", pending, "already reported"}}},
		"retitling a cancelled show":     {"bob", mutRetitle, cancelled, soon, refusal{"CONFLICT", []string{"showId", cancelled, "cancelled"}}},
		"changing nothing":               {"bob", mutNothing, upcoming, soon, refusal{"INVALID", []string{"plannedAt", "title", "coverUrl"}}},
		"starting a cancelled show":      {"bob", mutStart, cancelled, soon, refusal{"CONFLICT", []string{"showId", cancelled, "cancelled"}}},
		"starting before it was planned": {"bob", mutStartAt, upcoming, past, refusal{"INVALID", []string{"at", upcoming, "before", "scheduled"}}},
		"starting in the future":         {"bob", mutStartAt, upcoming, soon, refusal{"INVALID", []string{"at", "future"}}},
		"ending a cancelled show":        {"bob", mutEnd, cancelled, soon, refusal{"CONFLICT", []string{"showId", cancelled, "cancelled"}}},
		"ending in the future":           {"bob", mutEndAt, live, soon, refusal{"INVALID", []string{"at", "future"}}},
		"cancelling a live show":         {"bob", mutCancel, live, soon, refusal{"CONFLICT", []string{"showId", live, "LIVE"}}},
		"cancelling a replay":            {"bob", mutCancel, over, soon, refusal{"CONFLICT", []string{"showId", over, "REPLAY"}}},
		"cancelling one that ended":      {"bob", mutCancel, pending, soon, refusal{"CONFLICT", []string{"showId", pending, "already reported"}}},
		"a replay of a cancelled show":   {"bob", mutReplay, cancelled, soon, refusal{"CONFLICT", []string{"showId", cancelled, "cancelled"}}},
		"a replay that is no address":    {"bob", mutBadURL, over, soon, refusal{"INVALID", []string{"replayUrl", "//example.com/r"}}},
		"starting another's show":        {"alice", mutStart, upcoming, soon, refusal{"FORBIDDEN", []string{"showId", upcoming, "not your show"}}},
		"ending another's show":          {"alice", mutEnd, live, soon, refusal{"FORBIDDEN", []string{"showId", live, "not your show"}}},
		"cancelling another's show":      {"alice", mutCancel, upcoming, soon, refusal{"FORBIDDEN", []string{"showId", upcoming, "not your show"}}},
		"another's replay":               {"alice", mutReplay, over, soon, refusal{"FORBIDDEN", []string{"showId", over, "not your show"}}},
		"starting what never was":        {"bob", mutStart, none, soon, refusal{"NOT_FOUND", []string{"showId", none}}},
		"starting a post":                {"bob", mutStart, c.post, soon, refusal{"INVALID", []string{"showId", c.post, "a show"}}},
		"reminded of a live show":        {"alice", mutRemind, live, soon, refusal{"CONFLICT", []string{"showId", live, "LIVE"}}},
		"reminded of a cancelled show":   {"alice", mutRemind, cancelled, soon, refusal{"CONFLICT", []string{"showId", cancelled, "CANCELLED"}}},
		"reminded of one's own show":     {"bob", mutRemind, upcoming, soon, refusal{"INVALID", []string{"showId", upcoming, "your own"}}},
		"reminded by who blocks one":     {"carol", mutRemind, upcoming, soon, refusal{"NOT_FOUND", []string{"showId: there is no " + upcoming}}},
		"reminded of what never was":     {"alice", mutRemind, none, soon, refusal{"NOT_FOUND", []string{"showId", none}}},
		"reminded of a user":             {"alice", mutRemind, "user:bob", soon, refusal{"INVALID", []string{"showId", "user:bob", "a show"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.wantNoEffect(t, func(t *testing.T) {
				bad.want.check(t, c.Ask(bad.as, bad.query, map[string]any{"v": bad.value, "p": at(bad.moment)}))
			})
		})
	}
}
