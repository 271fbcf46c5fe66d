package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// everySourceAnswer returns an answer to everySourceQuery in which all sources have counts and all dots are lit.
func everySourceAnswer() string {
	const one = `{"value":1,"precision":"EXACT"}`
	dots := strings.TrimSuffix(strings.Repeat(`{"lit":true},`, itemsPerSource), ",")
	return fmt.Sprintf(`{"total":%[1]s,"homeFeed":%[1]s,"notifications":{"like":%[1]s,"comment":%[1]s,"mention":%[1]s,"follow":%[1]s},`+
		`"siteMessages":{"total":%[1]s,"types":[{"count":%[1]s},{"count":%[1]s}]},"announcements":%[1]s,"conversations":{"total":%[1]s},"liveBoard":%[1]s,"views":%[1]s,"dots":[%[2]s]}`, one, dots)
}

func TestSourcesWithoutACountAreNamed(t *testing.T) {
	for changed, want := range map[string]string{
		"":                                    "",
		`"comment":{"value":1`:                "comment",
		`"conversations":{"total":{"value":1`: "conversations",
		`"announcements":{"value":1`:          "announcements",
		`"liveBoard":{"value":1`:              "liveBoard",
		`"views":{"value":1`:                  "views",
		`{"count":{"value":1`:                 "siteMessages.types",
	} {
		text := everySourceAnswer()
		if changed != "" {
			text = strings.Replace(text, changed, strings.TrimSuffix(changed, "1")+"0", 1)
		}
		var badges everySourceBadges
		if err := json.Unmarshal([]byte(text), &badges); err != nil {
			t.Fatal(err)
		}
		if got := badges.firstSourceWithoutCount(); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("without %s: %q", changed, got)
		}
	}
	for _, text := range []string{strings.Replace(everySourceAnswer(), "EXACT", "STALE", 1), strings.Replace(everySourceAnswer(), `"lit":true`, `"lit":false`, 1), strings.Replace(everySourceAnswer(), `{"lit":true},`, "", 1)} {
		a := startStubAPI(t, func(receivedRequest) string { return `{"data":{"viewer":{"badges":` + text + `}}}` })
		if err := checkEverySourceCounts(t.Context(), a, "anna"); err == nil {
			t.Errorf("%s is taken for a count of every source", text)
		}
	}
}

func TestFillEverySourceGivesEachSourceACount(t *testing.T) {
	w := newEventCountingServer(`{"data":{}}`)
	readers := []string{"anna", "bert"}
	if err := fillEverySource(t.Context(), startStubAPI(t, w.answer), readers); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"publishPost": 3 * 2, "follow": 2, "sendSiteMessage": 2 * itemsPerSource, "publishAnnouncement": itemsPerSource, "raiseDot": itemsPerSource,
		"touchView": 2, "addViewItem": itemsPerSource, "scheduleShow": itemsPerSource, "startShow": itemsPerSource}
	if fmt.Sprint(w.eventCountByKind) != fmt.Sprint(want) || len(w.queryCountByToken) != 2 {
		t.Errorf("filled with %v, want %v; policies of %v", w.eventCountByKind, want, w.queryCountByToken)
	}
}

func TestDataSizesFitTogether(t *testing.T) {
	for name, w := range map[string]dataSizes{"whole": fullDataSizes, "quick": quickDataSizes} {
		if w.manyUsers <= w.fewUsers || w.talkingMembers >= w.groupMembers || len(w.conversationsPerReader) != 3 || w.onlineUsers > w.fewUsers {
			t.Errorf("%s: %+v", name, w)
		}
		for _, conversations := range w.conversationsPerReader {
			if conversations%2 > 0 {
				t.Errorf("%s: %d conversations have no half", name, conversations)
			}
		}
		// There must be at least as many publications as there are different dots, because each dot must be lit in the end.
		if w.publicationsPerRound < dotCount {
			t.Errorf("%s: %d publications of %d dots", name, w.publicationsPerRound, dotCount)
		}
	}
	b := &bench{options: options{turnSeconds: 2, sizes: fullDataSizes}}
	if b.rowTurnLength() != 2*time.Second {
		t.Errorf("a turn takes %v", b.rowTurnLength())
	}
	if b.sizes = quickDataSizes; b.rowTurnLength() != quickDataSizes.rowTurnLength {
		t.Errorf("a quick turn takes %v", b.rowTurnLength())
	}
}
