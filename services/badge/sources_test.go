package badge

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/live"
	"tidings/services/rdb"
)

// renamedSource is a source under another name.
type renamedSource struct {
	Source
	newName string
}

func (r renamedSource) Name() string { return r.newName }

// stateSharingSource is a source without a key that shares state.
type stateSharingSource struct{ displayPolicy }

func (stateSharingSource) Name() string { return "sharing" }

func (stateSharingSource) SharedState(context.Context, time.Time) (any, error) { return nil, nil }

func TestRegistrationRefusesASourceThatIsTakenOrMissing(t *testing.T) {
	all := func() sourceList { return (&Service{}).newSources(sourcesOfFeatures()...) }
	for _, c := range []struct {
		sources sourceList
		want    string // in the panic; "" for none
	}{
		{all(), ""},
		{append(all(), all()[1]), `"notifications" is registered twice`},
		{append(all(), renamedSource{all()[1], "more notifications"}), `"more notifications" is registered twice`},
		{append(all(), renamedSource{all()[1], "display policy"}), `"display policy" is registered twice`},
		{all()[1:], "no source is registered for HOME_FEED"},
		{append(all(), stateSharingSource{}), "more than one source shares state"},
	} {
		func() {
			defer func() {
				got, _ := recover().(string)
				if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
					t.Errorf("%d sources: panic %q, want %q", len(c.sources), got, c.want)
				}
			}()
			newSourceList(c.sources...)
		}()
	}
}

// The order of registration does not matter: the badges show the sources in one order, and the display policy comes last.
func TestSourcesAreInTheOrderOfTheirKeys(t *testing.T) {
	shuffled := slices.Clone(testSources)
	slices.Reverse(shuffled)
	for i, source := range newSourceList(shuffled...) {
		if source.Name() != testSources[i].Name() {
			t.Errorf("source %d is %s, want %s", i, source.Name(), testSources[i].Name())
		}
	}
}

// fixedCountSource is a source with a fixed count. It replaces the live board.
type fixedCountSource struct {
	live.Source
	count int
}

func (t fixedCountSource) Render(_ *source.Rendering, badges *services.Badges) {
	badges.LiveBoard = source.ExactCount(t.count)
}

func (t fixedCountSource) Facts(context.Context, []services.UserID, int64, []rdb.Document) error {
	return nil
}

func (t fixedCountSource) Explain(context.Context, source.ExplainRequest) ([]services.Explanation, error) {
	return []services.Explanation{{Source: t.Key(), Count: source.ExactCount(t.count)}}, nil
}

func (t fixedCountSource) Digest(_ context.Context, _ services.UserID, _ time.Time, digest *services.Digest) error {
	source.AddDigestPart(digest, t.Key(), "", t.count, source.MaxExplainedItems)
	return nil
}

// A source that is in the list is part of badges and their total, from Redis and from SQL, of the explanation and of the
// digest, with no other code.
func TestOneRegistrationAddsASourceEverywhere(t *testing.T) {
	n := redisServerNode(t)
	user := n.MakeUsers(1)[0]
	for i, source := range n.sources {
		if board, ok := source.(live.Source); ok {
			n.sources[i] = fixedCountSource{board, 5}
		}
	}
	if badges := n.read(user); badges.LiveBoard.Value != 5 || badges.Total.Value != 5 || badges.Total.Precision != services.Exact {
		t.Errorf("badges: %+v", badges)
	}
	if badges, err := n.ReadFacts(t.Context(), user); err != nil || badges.LiveBoard.Value != 5 || badges.Total.Precision != services.Stale {
		t.Errorf("badges from SQL: %+v, %v", badges, err)
	}
	if explanations, err := n.Explain(t.Context(), user); err != nil || len(explanations) != 1 || explanations[0].Count.Value != 5 {
		t.Errorf("explanations: %+v, %v", explanations, err)
	}
	digest, err := n.Digest(t.Context(), user, n.Clock.Now().Add(-time.Hour))
	n.Must(err)
	found := false
	for _, part := range digest.Parts {
		found = found || part.Source == services.SourceLiveBoard && part.Count.Value == 5
	}
	if !found {
		t.Errorf("digest: %+v", digest)
	}
}
