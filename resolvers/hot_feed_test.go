package resolvers

import (
	"bytes"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"pgregory.net/rapid"

	"tidings/graph"
	"tidings/services"
	"tidings/services/feed"
)

// textGenerator draws bodies and names. They have characters that JSON must escape, characters that encoding/json escapes for
// browsers, and others.
var textGenerator = rapid.StringOfN(rapid.SampledFrom([]rune("ab ä😀\u2028\"\\/<>&'\n\r\t\b\x00\x1f\x7f")), 0, 20, -1)

// drawText draws a text, sometimes with invalid UTF-8.
func drawText(t *rapid.T, name string) string {
	text := textGenerator.Draw(t, name)
	if rapid.IntRange(0, 9).Draw(t, "broken") == 0 {
		text += "\xff\xc3" + text
	}
	return text
}

func drawPostID(t *rapid.T, name string) services.PostID {
	return services.PostID(rapid.Uint64Range(1, uint64(services.MaxPostID)).Draw(t, name))
}

// drawRelations draws the relations between the viewer and the users of a page.
func drawRelations(t *rapid.T) map[services.UserID]services.Relation {
	return map[services.UserID]services.Relation{1: {
		Follows: rapid.Bool().Draw(t, "follows"), FollowsViewer: rapid.Bool().Draw(t, "followed"), Mutes: rapid.Bool().Draw(t, "mutes"),
		Blocks: rapid.Bool().Draw(t, "blocks"), Hides: rapid.Bool().Draw(t, "hides"),
		Mode: rapid.SampledFrom([]services.FollowMode{services.FollowAll, services.FollowLiveOnly, services.FollowNone}).Draw(t, "mode"),
	}}
}

func drawLabel(t *rapid.T) services.Label {
	return services.Label{
		Ref: rapid.SampledFrom([]string{"", "1", "a\"b<é>"}).Draw(t, "ref"), URL: rapid.SampledFrom([]string{"", "https://example.com/?x=1&y=\"<>"}).Draw(t, "url"),
		Data: rapid.SampledFrom([]string{"", "{}", `{"a":[1.50,"<x>"]}`}).Draw(t, "data"),
	}
}

// drawPage draws a page of a home feed, with everything that a field of it can show.
func drawPage(t *rapid.T) shownFeed {
	page := shownFeed{relations: drawRelations(t), viewer: services.UserID(rapid.Uint32().Draw(t, "viewer")), engagements: map[services.PostID]services.Engagement{}, labels: map[services.Object]services.Label{}}
	for range rapid.IntRange(0, 4).Draw(t, "posts") {
		item := feed.Item{Post: services.Post{
			ID: drawPostID(t, "id"), Kind: rapid.SampledFrom(services.PostKinds).Draw(t, "kind"), Body: drawText(t, "body"),
		}}
		if rapid.Bool().Draw(t, "answer") {
			item.Post.Parent = drawPostID(t, "parent")
		}
		if rapid.Bool().Draw(t, "edited") {
			item.Post.EditedAt = item.Post.ID.Time()
		}
		item.Post.Author = page.viewer + services.UserID(rapid.Uint32Range(0, 1).Draw(t, "author"))
		page.engagements[item.Post.ID] = services.Engagement{
			Likes: rapid.IntRange(0, 1<<40).Draw(t, "likes"), Comments: rapid.IntRange(0, 3).Draw(t, "comments"), LikedByViewer: rapid.Bool().Draw(t, "liked"),
		}
		page.labels[postObject(item.Post.ID)] = drawLabel(t)
		if rapid.IntRange(0, 4).Draw(t, "known") > 0 { // otherwise the author is unknown by now
			item.Author = services.User{ID: 1, Key: rapid.StringMatching(`[a-zA-Z0-9._-]{1,8}`).Draw(t, "key"), Name: drawText(t, "name")}
			item.Author.AvatarURL = rapid.SampledFrom([]string{"", "https://example.com/a.png?x=1&y=\"<>"}).Draw(t, "avatar")
		}
		page.Items = append(page.Items, item)
	}
	page.HasNext, page.InboxBuilding = rapid.Bool().Draw(t, "more"), rapid.Bool().Draw(t, "building")
	if rapid.Bool().Draw(t, "looked") {
		page.NextPageAfter = drawPostID(t, "next")
	}
	page.End = rapid.SampledFrom([]services.FeedEnd{"", services.EndOfFeed, services.EndOfRetention}).Draw(t, "end")
	page.HasPrevious = rapid.Bool().Draw(t, "newer above")
	return page
}

// For any selection and any page the compiled selection gives the same answer as gqlgen's generated code, byte for byte, with and
// without badges.
func TestACompiledPageEqualsTheExecutedOne(t *testing.T) {
	schema := hotSchema()
	rapid.Check(t, func(t *rapid.T) {
		fields, contents := []string{}, []hotPartValue{}
		shown := hotPartValue{feed: drawPage(t), badges: shownBadges{drawBadges(t), fixedViewerKey}}
		for _, field := range rapid.Permutation([]string{"homeFeed", "badges"}).Draw(t, "fields")[:rapid.IntRange(1, 2).Draw(t, "how many")] {
			kind := map[string]string{"homeFeed": "PostConnection", "badges": "Badges"}[field]
			fields, contents = append(fields, field+drawSelection(t, schema, schema.Types[kind], 0)), append(contents, shown)
		}
		query := "{ me: viewer { " + strings.Join(fields, " ") + " } }"
		plan := hotPlanOf(parseQuery(t, query))
		if plan == nil {
			t.Fatalf("not compiled: %s", query)
		}
		if got, want := string(plan.response(contents).Data), executedAnswer(t, shown, query); got != want {
			t.Fatalf("%s\ncompiled %s\nexecuted %s", query, got, want)
		}
	})
}

// Every text is written exactly as the executor writes it.
func TestTextsAreEscapedAsExecutionDoes(t *testing.T) {
	check := func(t interface{ Errorf(string, ...any) }, text string) {
		var want bytes.Buffer
		graphql.MarshalString(text).MarshalGQL(&want)
		if got := graph.AppendText(nil, text); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%q: %s, want %s", text, got, want.Bytes())
		}
	}
	for c := range 256 {
		check(t, string([]byte{'a', byte(c), 'b', byte(c), byte(c)}))
		check(t, "a"+string(rune(c))+"\"")
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, drawText(t, "text"))
		check(t, string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
	})
}

// fullPage is a typical page of 20 posts.
func fullPage() shownFeed {
	page := shownFeed{viewer: 7, Page: feed.Page{HasNext: true}}
	for i := range defaultFirst {
		page.Items = append(page.Items, feed.Item{
			Post:   services.Post{ID: services.MaxPostID>>1 - services.PostID(i)<<30, Kind: services.PostKindPost, Body: strings.Repeat("a body ", 20)},
			Author: services.User{ID: 9, Key: "alice", Name: "Alice", AvatarURL: "https://example.com/alice.png"},
		})
		page.NextPageAfter = page.Items[i].Post.ID
	}
	return page
}

// pageQuery requests a page of 20 posts, as many as fullPage has, with the fields that a client usually shows.
const pageQuery = `{ viewer { homeFeed(first: 20) { edges { cursor node { id kind author { id key name avatarUrl } body publishedAt } }
	pageInfo { hasNextPage hasPreviousPage startCursor endCursor } lastId end } } }`

// A page is written into one buffer: the number of allocations does not grow with its content.
func TestAPageIsWrittenIntoOneBuffer(t *testing.T) {
	plan, shown := hotPlanOf(parseQuery(t, pageQuery)), []hotPartValue{{feed: fullPage()}}
	if allocations := testing.AllocsPerRun(20, func() { plan.response(shown) }); allocations > 8 {
		t.Errorf("%v allocations for a page of %d", allocations, defaultFirst)
	}
}

func BenchmarkPage(b *testing.B) {
	shown := hotPartValue{feed: fullPage()}
	b.Run("compiled", func(b *testing.B) {
		plan := hotPlanOf(parseQuery(b, pageQuery))
		for b.Loop() {
			plan.response([]hotPartValue{shown})
		}
	})
	b.Run("executed", func(b *testing.B) {
		for b.Loop() {
			executedAnswer(b, shown, pageQuery)
		}
	})
}
