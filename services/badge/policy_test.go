package badge

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
)

func (n node) setDisplayPolicy(user services.UserID, change PolicyChange) {
	n.TB.Helper()
	cmd, err := n.SetPolicy(user, change)
	n.Must(err)
	n.Must(n.World.Fanout.Commit(n.TB.Context(), cmd)[0])
}

func TestAPolicyAppliesToEveryDevice(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		_, reader := n.newLikedAuthor(3)
		before := n.read(reader)
		n.setDisplayPolicy(reader, PolicyChange{InTotal: map[services.Source]bool{services.SourceHomeFeed: false}})
		after := n.read(reader)
		if after.Total.Value != 0 || after.HomeFeed.Value != 3 || after.Version <= before.Version {
			t.Errorf("once it is set: %+v", after)
		}
		n.setDisplayPolicy(reader, PolicyChange{AsDot: map[services.Source]bool{services.SourceHomeFeed: true}, Quiet: &QuietHours{"23:00", "06:30", 60}})
		if got := n.read(reader); got.HomeFeed.Display != services.DisplayDot || got.HomeFeed.InTotal {
			t.Errorf("what was set before is forgotten: %+v", got.HomeFeed)
		}
		policy, err := n.Policy(t.Context(), reader)
		n.Must(err)
		want := services.DisplayPolicy{
			Version: 2, InTotalInverted: map[services.Source]bool{services.SourceHomeFeed: true}, AsDot: map[services.Source]bool{services.SourceHomeFeed: true},
			QuietFromMinute: 23 * 60, QuietToMinute: 6*60 + 30, UTCOffsetMinutes: 60,
		}
		if difference := cmp.Diff(want, policy); difference != "" {
			t.Error(difference)
		}
		facts, err := n.ReadFacts(t.Context(), reader)
		n.Must(err)
		if facts.HomeFeed.InTotal || facts.HomeFeed.Display != services.DisplayDot {
			t.Errorf("from SQL: %+v", facts.HomeFeed)
		}
		n.setDisplayPolicy(reader, PolicyChange{
			InTotal: map[services.Source]bool{services.SourceHomeFeed: true}, AsDot: map[services.Source]bool{services.SourceHomeFeed: false},
			Quiet: &QuietHours{"00:00", "00:00", 0},
		})
		if got := n.read(reader); got.Total.Value != 3 || got.HomeFeed.Display != "3" {
			t.Errorf("taken back: %+v", got)
		}
	})
}

// A rebuild restores the policy in a lost document, and the job of the policy's change, which runs later, leaves it as it is.
func TestAPolicySurvivesALostDocument(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(3)
	n.setDisplayPolicy(reader, PolicyChange{InTotal: map[services.Source]bool{services.SourceHomeFeed: false}})
	n.RedisServer.Flush()
	if got := n.read(reader).Total.Value; got != 0 {
		t.Errorf("after a flush the total is %d", got)
	}
	n.RunAllJobs(n.World.Fanout)
	if got := n.read(reader).Total.Value; got != 0 {
		t.Errorf("after its jobs the total is %d", got)
	}
}

func TestAnInvalidPolicyIsRefused(t *testing.T) {
	n := redisServerNode(t)
	user := n.MakeUsers(1)[0]
	for _, refused := range []struct {
		hours QuietHours
		says  string // a part of the error
	}{
		{QuietHours{"24:00", "06:00", 0}, "quietHours.from"},
		{QuietHours{"7:00", "06:00", 0}, "quietHours.from"},
		{QuietHours{"", "06:00", 0}, "quietHours.from"},
		{QuietHours{"22:00", "06:60", 0}, "quietHours.to"},
		{QuietHours{"22:00", "-1:00", 0}, "quietHours.to"},
		{QuietHours{"22:00", "06-00", 0}, "quietHours.to"},
		{QuietHours{"22:00", "06:00", -721}, "-720 to 840"},
		{QuietHours{"22:00", "06:00", 841}, "quietHours.offsetMinutes"},
	} {
		_, err := n.SetPolicy(user, PolicyChange{Quiet: &refused.hours})
		if services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), refused.says) {
			t.Errorf("%+v: %v", refused.hours, err)
		}
	}
	if policy, err := n.Policy(t.Context(), user); err != nil || policy.Version != 0 {
		t.Errorf("something of it was kept: %+v, %v", policy, err)
	}
}

func TestMinutesParseAsPrinted(t *testing.T) {
	for minute := range 24 * 60 {
		if got, err := parseMinuteOfDay("f", FormatMinuteOfDay(minute)); got != minute || err != nil {
			t.Fatalf("%d is %s and read as %d, %v", minute, FormatMinuteOfDay(minute), got, err)
		}
	}
}
