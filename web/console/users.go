package console

import (
	"context"
	"net/http"
	"strings"
	"time"

	"tidings/services"
)

// userDocument reads users with their badges by their keys, for which the scope ingest is needed. observingContext has that scope.
const userDocument = `query ($keys: [String!]!) { users(keys: $keys) {
	user { id key name }
	badges { version quiet total { value display precision asOf } dots { name lit } }
	unread { source count { value display inTotal precision asOf } }
} }`

// viewerDocument reads what the user of the context would see. Each list has its first 20 items, enough for a support case. The page
// says if a list has more items.
const viewerDocument = `{ viewer {
	badgeExplained { source part count { value precision } items { nodeId at count clearedBy } }
	homeFeed(first: 20) { edges { node { id author { key name } body publishedAt } } end }
	notifications(first: 20) { edges { node { id category actorCount actors { key } at seen read older } } pageInfo { hasNextPage } }
	conversations(first: 20) { edges { node { id kind title memberCount muted unread { value } mentions { value } } } pageInfo { hasNextPage } }
	mutes { edges { since until node { id key } } pageInfo { hasNextPage } }
	blocks { edges { since node { id key } } pageInfo { hasNextPage } }
	hides { edges { since node { id key } } pageInfo { hasNextPage } }
} }`

// The types below are the answers to userDocument and viewerDocument, as far as the page shows them.

// badgeCount is one count of the badges, or a part of one.
type badgeCount struct {
	Value     *int       // nil: unknown
	Display   string     // the text that an app would show
	InTotal   bool       // the count is part of the total
	Precision string     // EXACT, AT_LEAST, STALE or UNKNOWN
	AsOf      *time.Time // the time at which a count that is STALE was right
}

// userAnswer is one entry of users(keys); the entry is null for a key without a user.
type userAnswer struct {
	User struct {
		ID, Key string
		Name    *string
	}
	Badges struct {
		Version string
		Quiet   bool // the user's quiet hours are in effect
		Total   badgeCount
		Dots    []struct {
			Name string
			Lit  bool
		}
	}
	// Unread has one entry for each source, in the order of the API.
	Unread []struct {
		Source string
		Count  badgeCount
	}
}

// pageInfo says whether a list has further pages. The page has no links to further pages of a list.
type pageInfo struct{ HasNextPage bool }

// restrictions is a list of mutes, blocks or hides, which have one shape in the API. Only mutes have Until.
type restrictions struct {
	Edges []struct {
		Since time.Time
		Until *time.Time
		Node  struct{ ID, Key string }
	}
	PageInfo pageInfo
}

// viewerAnswer is the data that the user would see. A list is nil if it could not be read; the page then shows the other lists.
type viewerAnswer struct {
	// BadgeExplained has the counts of the badges that are not 0, each with the items that make it up.
	BadgeExplained []struct {
		Source string
		Part   *string
		Count  badgeCount
		Items  []struct {
			NodeID    string
			At        time.Time
			Count     int    // what the item adds to the count
			ClearedBy string // the text of a mutation that removes the item from the count
		}
	}
	// End is the reason why the feed ends, or empty while it goes on.
	HomeFeed *struct {
		Edges []struct {
			Node struct {
				ID, Body string
				Author   struct {
					Key  string
					Name *string
				}
				PublishedAt time.Time
			}
		}
		End *string
	}
	// Seen takes a row out of the badge's number, and Read marks the row itself. An unseen row that is too old to count is Older.
	Notifications *struct {
		Edges []struct {
			Node struct {
				ID, Category      string
				ActorCount        int
				Actors            []struct{ Key string }
				At                time.Time
				Seen, Read, Older bool
			}
		}
		PageInfo pageInfo
	}
	// Both counts are the user's own, and are given for a muted conversation too.
	Conversations *struct {
		Edges []struct {
			Node struct {
				ID, Kind         string
				Title            *string
				MemberCount      int
				Muted            bool
				Unread, Mentions badgeCount
			}
		}
		PageInfo pageInfo
	}
	Mutes, Blocks, Hides *restrictions
}

// maxShownItems is the most items behind a count that the page lists.
// If the explanation has more, the page says how many it leaves out.
const maxShownItems = 50

// users shows the user whose key or ID is in the address, or the form to enter one. Each look at a user is recorded as an act
// with its outcome, even if there is no such user.
func (c *Console) users(v *pageRequest) {
	named := strings.TrimSpace(v.r.URL.Query().Get("user"))
	if named == "" {
		v.page.Title, v.page.Here, v.page.Body = "Users", rootPath+"/users", userBody{}
		c.show(v, http.StatusOK, "users")
		return
	}
	key, err := userKeyOf(named)
	if err == nil {
		err = c.cfg.RecordAct(v.ctx, "lookUpUser", services.GlobalID(services.UserType, key), func(ctx context.Context) error {
			return c.lookUp(v, key)
		})
	}
	c.showUser(v, named, err)
}

// userKeyOf returns the key of a user who is named by a key or an ID. A key may contain a colon, so a text that begins with "user:"
// can be either. It counts as an ID if it parses as an ID.
func userKeyOf(named string) (string, error) {
	if key, err := services.ParseUserID("user", named); err == nil {
		return key, nil
	}
	// The error describes a valid key.
	if err := services.CheckUserKey(named); err != nil {
		return "", err
	}
	return named, nil
}

// userBody is the body of the page of a user.
type userBody struct {
	Named string       // what the operator typed
	Found *userAnswer  // nil: no user was requested, found or read
	View  viewerAnswer // what the user would see; empty if it could not be read
}

// lookUp reads a user, and what they would see, into the body of v.page; it does not write the page. The error is NOT_FOUND if there is
// no such user: then viewerDocument is not executed, because that would create the user. The error is also the outcome of the recorded
// act.
func (c *Console) lookUp(v *pageRequest, key string) error {
	var found struct{ Users []*userAnswer }
	// From here on everything is read as the user, without counting as a visit.
	observed := observingContext(v, key)
	if !c.executeQuery(v, observed, userDocument, map[string]any{"keys": []any{key}}, &found) && len(found.Users) == 0 {
		return services.Errorf(services.Unavailable, "The user cannot be read now.")
	}
	// The answer has an entry for each key: null if no user has the key.
	if len(found.Users) != 1 || found.Users[0] == nil {
		return services.Errorf(services.NotFound, "There is no user %s.", services.Quote(key))
	}
	// viewerDocument is executed second, because it needs a user who exists.
	var seen struct{ Viewer *viewerAnswer }
	c.executeQuery(v, observed, viewerDocument, nil, &seen)
	body := userBody{Found: found.Users[0]}
	if seen.Viewer != nil {
		body.View = *seen.Viewer
	}
	v.page.Body = body
	return nil
}

// showUser shows what lookUp read, also after a recount. named stays in the form, even if no user was found.
func (c *Console) showUser(v *pageRequest, named string, err error) {
	// There is no body if lookUp failed; the form is shown nevertheless.
	body, _ := v.page.Body.(userBody)
	body.Named = named
	v.page.Title, v.page.Here, v.page.Body = "Users", rootPath+"/users", body
	// The browser's history keeps the title. It reveals nothing new, because the history has the address too, with the name.
	if body.Found != nil {
		v.page.Title = "User " + body.Found.User.Key
	}
	// With an error there is no user, and only the form is shown.
	status := http.StatusOK
	if err != nil {
		status, v.page.Error = statusOf(err), errorText(err)
	}
	c.show(v, status, "users")
}

// recountBadges rebuilds a user's badges and home feed, and then shows the user. The mutation is recorded as an act on the user, so
// showing the user needs no record of its own. After an error of the mutation the user is not read: the ID may name nobody.
func (c *Console) recountBadges(v *pageRequest) {
	// The form contains the ID of the user that the page shows.
	id := v.r.PostFormValue("user")
	var answer struct{ RecountBadges *struct{ Differed []string } }
	status := c.executeMutation(v, `mutation ($user: ID!) { recountBadges(input: {userId: $user}) { differed } }`, map[string]any{"user": id}, &answer)
	if status != http.StatusOK {
		v.page.Title, v.page.Here, v.page.Body = "Users", rootPath+"/users", userBody{Named: id}
		c.show(v, status, "users")
		return
	}
	v.page.Notice = "The badges and the home feed were rebuilt from the facts. They had been right."
	if answer.RecountBadges != nil && len(answer.RecountBadges.Differed) > 0 {
		v.page.Notice = "The badges and the home feed were rebuilt from the facts. These parts had been wrong: " + strings.Join(answer.RecountBadges.Differed, ", ") + "."
	}
	key, err := userKeyOf(id)
	if err == nil {
		err = c.lookUp(v, key)
	}
	c.showUser(v, id, err)
}
