package world

import (
	"encoding/json"
	"maps"

	"pgregory.net/rapid"
)

// FollowMode returns the mode of a reader's follow of an author: ALL, LIVE_ONLY or NONE.
func (w *ReferenceModel) FollowMode(reader, author string) string {
	if mode := w.followModes[reader][author]; mode != "" {
		return mode
	}
	return "ALL"
}

// SetFollowMode changes the mode of a drawn follow, and fails if the answer, or the number of new posts, differs from the model's.
func (w *ReferenceModel) SetFollowMode(t *rapid.T) {
	reader, author := w.DrawPerson(t, "reader"), w.DrawPerson(t, "author")
	mode := rapid.SampledFrom([]string{"LIVE_ONLY", "ALL", "NONE"}).Draw(t, "mode")
	var data struct {
		SetFollowMode struct {
			User   struct{ ViewerFollowMode string }
			Badges Badges
		}
	}
	got := w.Node.Ask(reader, `mutation($u:ID!,$m:FollowMode!){setFollowMode(input:{userId:$u,mode:$m}){changed user{viewerFollowMode} badges{`+BadgeFields+`}}}`,
		map[string]any{"u": "user:" + author, "m": mode})
	_, follows := w.PostCountAtFollow[reader][author]
	if want := map[bool]string{false: "CONFLICT"}[follows]; got.ErrorCode() != want {
		t.Fatalf("a mode of %s for %s: code %q, want %q", author, reader, got.ErrorCode(), want)
	}
	if !follows {
		return
	}
	if changed := w.FollowMode(reader, author) != mode; got.Changed() != changed {
		t.Fatalf("mode %s after %s: changed %t, want %t", mode, w.FollowMode(reader, author), got.Changed(), changed)
	}
	if err := json.Unmarshal(got.Data, &data); err != nil {
		t.Fatal(err)
	}
	if shown := data.SetFollowMode.User.ViewerFollowMode; shown != mode {
		t.Fatalf("the mode is shown as %s after %s", shown, mode)
	}
	w.followModes[reader][author] = mode
	if w.JobsPending {
		return
	}
	for when, badges := range map[string]Badges{"in the answer": data.SetFollowMode.Badges, "in the next read": w.ReadBadges(t, reader)} {
		if badges.HomeFeed.Value != w.expectedNewPosts(reader) {
			t.Fatalf("%s for %s in mode %s, %s: %+v are new, want %d", author, reader, mode, when, badges.HomeFeed, w.expectedNewPosts(reader))
		}
	}
}

// compareFollowModes compares the list of a person's follows whose mode is not ALL with the model.
func (w *ReferenceModel) compareFollowModes(t *rapid.T, person string) {
	want := map[string]string{}
	for author := range w.PostCountAtFollow[person] {
		if mode := w.FollowMode(person, author); mode != "ALL" {
			want[author] = mode
		}
	}
	var data struct {
		Viewer struct {
			Preferences struct {
				Follows struct {
					Nodes []struct{ Key, ViewerFollowMode string }
				}
			}
		}
	}
	w.Node.MustAsk(person, `{viewer{preferences{follows(first:100){nodes{key viewerFollowMode}}}}}`, nil, &data)
	listed := map[string]string{}
	for _, one := range data.Viewer.Preferences.Follows.Nodes {
		listed[one.Key] = one.ViewerFollowMode
	}
	if !maps.Equal(listed, want) {
		t.Fatalf("%s: the modes are %v, want %v", person, listed, want)
	}
}
