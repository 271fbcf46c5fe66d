package notifications

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// setLikePreference changes a preference of likes, and waits for all jobs.
func (n node) setLikePreference(user services.UserID, change PreferenceChange) (changed bool) {
	n.TB.Helper()
	cmd, err := n.service.SetPreference(user, services.CategoryLike, change)
	n.Must(err)
	n.commitAndRunJobs(cmd)
	return cmd.Changed()
}

// likeCount is the count of likes as the document of a user has it.
func (n node) likeCount(user services.UserID) services.Count {
	n.TB.Helper()
	rendering := source.Rendering{Settings: &source.Settings{}, Document: n.Document(user), Moment: source.Moment{Now: n.Clock.Now(), MonotonicNow: n.Clock.Now()}}
	badges := &services.Badges{}
	Source{db: n.DB}.Render(&rendering, badges)
	return badges.Notifications.Like
}

// A preference changes the number at once, a second one changes it back in the same document, and a loss of Redis keeps the
// preference.
func TestPreferencesChangeTheCountAndSurviveALoss(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(2)
		author := users[0]
		n.commitAndRunJobs(n.like(users[1], n.Post(author)))
		n.commitAndRunJobs(n.like(users[1], n.Post(author)))
		off, dot, counted := services.CategoryOff, services.CategoryDot, services.CategoryCounted
		for _, step := range []struct {
			mode    services.CategoryMode
			value   int
			changed bool
		}{{counted, 2, true}, {counted, 2, false}, {off, 0, true}, {off, 0, false}, {dot, 2, true}, {counted, 2, true}, {off, 0, true}} {
			before := n.Document(author).Version
			if changed := n.setLikePreference(author, PreferenceChange{Mode: &step.mode}); changed != step.changed {
				t.Errorf("to %v: changed is %v", step.mode, changed)
			}
			if got := n.likeCount(author); got.Value != step.value || got.Mode != step.mode {
				t.Errorf("as %v: %+v", step.mode, got)
			}
			if risen := n.Document(author).Version > before; risen != step.changed {
				t.Errorf("to %v: the version rises %v", step.mode, risen)
			}
		}
		n.Must(n.Redis.ResetUserData(t.Context(), author))
		n.Must(n.Projector.Rebuild(t.Context(), author))
		if got := n.likeCount(author); got.Value != 0 || got.Mode != off {
			t.Errorf("after a loss: %+v", got)
		}
		n.CheckAgainstFacts(author)
		n.setLikePreference(author, PreferenceChange{Mode: &counted})
		if got := n.likeCount(author); got.Value != 2 {
			t.Errorf("counted again: %+v", got)
		}
		if _, err := n.service.SetPreference(author, "WEATHER", PreferenceChange{}); services.CodeOf(err) != services.Invalid {
			t.Errorf("of no category: %v", err)
		}
	})
}

// An item that came while its category did not alert never alerts, not even after the category alerts again.
func TestPreferencesDecideWhatAlerts(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(2)
		author := users[0]
		no, yes, dot, counted := true, false, services.CategoryDot, services.CategoryCounted
		alerts := func(at time.Time) bool {
			of, err := Source{db: n.DB}.Alerting(t.Context(), author)
			n.Must(err)
			return of("LIKE", at) && of("COMMENT", at)
		}
		before := n.DB.Now()
		if !alerts(before) {
			t.Error("it does not alert without a preference")
		}
		for _, change := range []struct{ off, on PreferenceChange }{
			{PreferenceChange{NoPush: &no}, PreferenceChange{NoPush: &yes}}, {PreferenceChange{Mode: &dot}, PreferenceChange{Mode: &counted}},
		} {
			n.setLikePreference(author, change.off)
			during := n.DB.Now()
			if alerts(during.Add(time.Hour)) {
				t.Errorf("with %+v it alerts", change.off)
			}
			n.Clock.Advance(time.Minute)
			n.setLikePreference(author, change.on)
			if alerts(during) || !alerts(n.DB.Now()) {
				t.Errorf("after %+v: of before %v, of now %v", change.on, alerts(during), alerts(n.DB.Now()))
			}
		}
	})
}

// A change leaves everything in the column that it is not about: another category's preference, and what a newer node has written
// that this one does not know.
func TestAChangedPreferenceKeepsWhatIsNotUnderstood(t *testing.T) {
	const comments, later = `"COMMENT":{"mode":"SUMMARY","push":false,"sound":{"name":"bell","volume":12345678901234567890}}`, `"LATER":{"mode":"COUNT"}`
	no, dot := true, services.CategoryDot
	eachNode(t, func(t *testing.T, n node) {
		author := n.MakeUsers(1)[0]
		n.Must(n.DB.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := sqltest.QueryLines(t.Context(), tx, "INSERT INTO category_preferences (user_number, ver, preferences) VALUES ($1, 4, $2)",
				author, "{"+comments+`,`+later+`,"LIKE":{"mode":"SUMMARY","sound":1},"MENTION":null}`)
			return err
		}))
		for _, step := range []struct {
			change  PreferenceChange
			changed bool
			likes   string
		}{
			{PreferenceChange{}, false, `{"mode":"SUMMARY","sound":1}`},
			{PreferenceChange{NoPush: &no}, true, `{"mode":"SUMMARY","push":false,"sound":1}`},
			{PreferenceChange{UseDefault: true}, true, `{"push":false,"sound":1}`},
			{PreferenceChange{UseDefault: true}, false, `{"push":false,"sound":1}`},
			{PreferenceChange{Mode: &dot}, true, `{"mode":"DOT","push":false,"sound":1}`},
		} {
			if changed := n.setLikePreference(author, step.change); changed != step.changed {
				t.Errorf("%+v: changed is %v", step.change, changed)
			}
			got := sqltest.Must(sqltest.QueryLines(t.Context(), n.DB, "SELECT preferences FROM category_preferences WHERE user_number = $1", author))(t)
			if want := "{" + comments + `,` + later + `,"LIKE":` + step.likes + `,"MENTION":null}`; len(got) != 1 || normalJSON(t, got[0]) != normalJSON(t, want) {
				t.Errorf("%+v: %s, want %s", step.change, got, want)
			}
		}
	})
}

// normalJSON returns a JSON text with its keys in one order, and each value as it is written.
func normalJSON(t *testing.T, text string) string {
	t.Helper()
	var value any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(sqltest.Must(json.Marshal(value))(t))
}
