package badge

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
)

// digestCounts returns how many items of each source and part a digest has; a part without items is absent.
func digestCounts(digest *services.Digest) map[string]int {
	parts := map[string]int{}
	for _, part := range digest.Parts {
		name := string(part.Source)
		if part.Part != "" {
			name += "/" + part.Part
		}
		if part.Count.Value > 0 {
			parts[name] = part.Count.Value
		}
	}
	return parts
}

func TestTheDigestListsItemsSinceTheLastVisit(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.MakeUsers(4)
		reader := users[3]
		for _, author := range users[:3] {
			n.Follow(author, reader)
		}
		n.RunAllJobs(n.World.Fanout)
		n.Post(users[0])
		if digest, err := n.Digest(t.Context(), reader, time.Time{}); err != nil || !digest.Since.IsZero() || len(digest.Parts) > 0 {
			t.Errorf("of a first visit: %+v, %v", digest, err)
		}
		n.Clock.Advance(time.Minute)
		left := n.Clock.Now()
		n.Clock.Advance(26 * time.Hour)
		for i, posts := range []int{1, 4, 3} {
			for range posts {
				n.Post(users[i])
			}
		}
		n.RunAllJobs(n.World.Fanout)
		n.read(reader)
		_, err := n.WriteVisits(t.Context())
		n.Must(err)
		digest, err := n.Digest(t.Context(), reader, time.Time{})
		n.Must(err)
		// A visit is recorded at its beginning: a post of its first minute is in the digest again.
		if digest.Since.After(left) || left.Sub(digest.Since) > time.Hour || digestCounts(digest)["HOME_FEED"] != 9 {
			t.Errorf("since %v, the last visit having been at %v: %+v", digest.Since, left, digest.Parts)
		}
		if len(digest.Authors) != 3 || digest.Authors[0] != users[1] || digest.Authors[1] != users[2] {
			t.Errorf("the authors are %v of %v", digest.Authors, users)
		}
		n.markFeedSeen(reader, services.PostID(services.SortableIDAt(n.Clock.Now())))
		if digest, err = n.Digest(t.Context(), reader, left); err != nil || digestCounts(digest)["HOME_FEED"] != 8 {
			t.Errorf("seen meanwhile: %+v, %v", digest, err)
		}
		n.Clock.Advance(time.Second)
		if digest, err = n.Digest(t.Context(), reader, n.Clock.Now()); err != nil || digestCounts(digest)["HOME_FEED"] != 0 {
			t.Errorf("since now: %+v, %v", digest, err)
		}
		if _, err := n.Digest(t.Context(), reader, n.Clock.Now().Add(time.Hour)); services.CodeOf(err) != services.Invalid {
			t.Errorf("since a moment that lies ahead: %v", err)
		}
	})
}
