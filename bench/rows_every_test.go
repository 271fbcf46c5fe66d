package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// litAnswer returns an answer to everyQuery in which all sources have counts and all dots are lit.
func litAnswer() string {
	const one = `{"value":1,"precision":"EXACT"}`
	dots := strings.TrimSuffix(strings.Repeat(`{"lit":true},`, everyNews), ",")
	return fmt.Sprintf(`{"total":%[1]s,"homeFeed":%[1]s,"notifications":{"like":%[1]s,"comment":%[1]s,"mention":%[1]s,"follow":%[1]s},`+
		`"siteMessages":{"total":%[1]s,"types":[{"count":%[1]s},{"count":%[1]s}]},"announcements":%[1]s,"conversations":{"total":%[1]s},"dots":[%[2]s]}`, one, dots)
}

func TestSourcesWithoutACountAreNamed(t *testing.T) {
	for changed, want := range map[string]string{
		"":                                    "",
		`"comment":{"value":1`:                "comment",
		`"conversations":{"total":{"value":1`: "conversations",
		`"announcements":{"value":1`:          "announcements",
		`{"count":{"value":1`:                 "siteMessages.types",
	} {
		text := litAnswer()
		if changed != "" {
			text = strings.Replace(text, changed, strings.TrimSuffix(changed, "1")+"0", 1)
		}
		var badges everyBadges
		if err := json.Unmarshal([]byte(text), &badges); err != nil {
			t.Fatal(err)
		}
		if got := badges.firstMissing(); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("without %s: %q", changed, got)
		}
	}
	for _, text := range []string{strings.Replace(litAnswer(), "EXACT", "STALE", 1), strings.Replace(litAnswer(), `"lit":true`, `"lit":false`, 1), strings.Replace(litAnswer(), `{"lit":true},`, "", 1)} {
		a := stubAPI(t, func(question) string { return `{"data":{"viewer":{"badges":` + text + `}}}` })
		if err := checkLit(t.Context(), a, "anna"); err == nil {
			t.Errorf("%s is taken for lit", text)
		}
	}
}

func TestLightGivesEverySourceACount(t *testing.T) {
	w := newCountingServer(`{"data":{}}`)
	readers := []string{"anna", "bert"}
	if err := lightSources(t.Context(), stubAPI(t, w.answer), readers); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"publishPost": 3 * 2, "follow": 2, "sendSiteMessage": 2 * everyNews, "publishAnnouncement": everyNews, "raiseDot": everyNews}
	if fmt.Sprint(w.done) != fmt.Sprint(want) || len(w.visited) != 2 {
		t.Errorf("lit %v, want %v; policies of %v", w.done, want, w.visited)
	}
}

func TestDataSizesFitTogether(t *testing.T) {
	for name, w := range map[string]dataSizes{"whole": wholeDataSizes, "quick": quickDataSizes} {
		if w.users <= w.few || w.talkers >= w.groupMembers || len(w.memberships) != 3 || w.watching > w.few {
			t.Errorf("%s: %+v", name, w)
		}
		for _, conversations := range w.memberships {
			if conversations%2 > 0 {
				t.Errorf("%s: %d conversations have no half", name, conversations)
			}
		}
		// There must be at least as many publications as there are different dots, because each dot must be lit in the end.
		if w.publications < dotCount {
			t.Errorf("%s: %d publications of %d dots", name, w.publications, dotCount)
		}
	}
	b := &bench{options: options{seconds: 2, sizes: wholeDataSizes}}
	if b.turnLength() != 2*time.Second {
		t.Errorf("a turn takes %v", b.turnLength())
	}
	if b.sizes = quickDataSizes; b.turnLength() != quickDataSizes.turn {
		t.Errorf("a quick turn takes %v", b.turnLength())
	}
}
