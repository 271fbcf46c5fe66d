package console

import (
	"context"
	"net/http"
	"strings"
	"time"

	"tidings/services"
)

// userDocument needs the scope ingest, and viewDocument is what the user themselves would see; asUser has both rights.
const userDocument = `query ($keys: [String!]!) { users(keys: $keys) {
	user { id key name }
	badges { version quiet total { value display precision asOf } dots { name lit } }
	unread { source count { value display inTotal precision asOf } }
} }`

// Lists have their first 20, which a support case needs; the page says where one goes on.
const viewDocument = `{ viewer {
	badgeExplained { source part count { value precision } items { nodeId at count clearedBy } }
	homeFeed(first: 20) { edges { node { id author { key name } body publishedAt } } end }
	notifications(first: 20) { edges { node { id category actorCount actors { key } at seen read older } } pageInfo { hasNextPage } }
	conversations(first: 20) { edges { node { id kind title memberCount muted unread { value } mentions { value } } } pageInfo { hasNextPage } }
	mutes { edges { since until node { id key } } pageInfo { hasNextPage } }
	blocks { edges { since node { id key } } pageInfo { hasNextPage } }
	hides { edges { since node { id key } } pageInfo { hasNextPage } }
} }`

// The types below are the parts of these documents that the page shows.
// Value is nil for a count that is not known at all; Display is then what an app would show.
type badgeCount struct {
	Value     *int
	Display   string
	InTotal   bool
	Precision string
	AsOf      *time.Time
}

// One user of users(keys), which is null for a key that nobody has.
type userAnswer struct {
	User struct {
		ID, Key string
		Name    *string
	}
	Badges struct {
		Version string
		Quiet   bool
		Total   badgeCount
		Dots    []struct {
			Name string
			Lit  bool
		}
	}
	// One for each source, in the order of the API.
	Unread []struct {
		Source string
		Count  badgeCount
	}
}

// Only whether a list goes on: the page has no paging.
type more struct{ HasNextPage bool }

// Mutes, blocks and hides have one form in the API. Until is of mutes alone.
type restrictions struct {
	Edges []struct {
		Since time.Time
		Until *time.Time
		Node  struct{ ID, Key string }
	}
	PageInfo more
}

// Each list is nil if it could not be read, and the others are shown.
type viewAnswer struct {
	BadgeExplained []struct {
		Source string
		Part   *string
		Count  badgeCount
		Items  []struct {
			NodeID    string
			At        time.Time
			Count     int
			ClearedBy string
		}
	}
	// End says why the feed ends, or nothing while it goes on.
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
	// Seen and Read are two marks: the first clears the number, the second the row.
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
		PageInfo more
	}
	// Both counts are the user's own, also of a conversation that they have muted.
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
		PageInfo more
	}
	Mutes, Blocks, Hides *restrictions
}

// shownItems is how many items behind a count the page lists.
// The explanation may have more; the page then says how many it leaves out.
const shownItems = 50

// users shows a user who is named in the address, or the form to name one. The name is not in the page's links: only an
// operator who types it looks at a person. The act is recorded with its outcome, also if there is no such user.
func (c *Console) users(v *visit) {
	named := strings.TrimSpace(v.r.URL.Query().Get("user"))
	if named == "" {
		v.page.Title, v.page.Here, v.page.Body = "Users", root+"/users", userBody{}
		c.show(v, http.StatusOK, "users")
		return
	}
	key, err := keyOf(named)
	if err == nil {
		err = c.cfg.Act(v.ctx, "lookUpUser", services.GlobalID(services.UserType, key), func(ctx context.Context) error {
			return c.lookUp(v, key)
		})
	}
	c.showUser(v, named, err)
}

// keyOf is the key of a user who is named by a key or an ID. A text that can be read as an ID is one. A key may contain a
// colon, so a text that begins with user: is the ID first.
func keyOf(named string) (string, error) {
	if key, err := services.ParseUserID("user", named); err == nil {
		return key, nil
	}
	// The error says what keys look like.
	if err := services.CheckUserKey(named); err != nil {
		return "", err
	}
	return named, nil
}

// userBody is the page of a user. View is empty if what they see could not be read. Named is what the operator typed.
type userBody struct {
	Named string
	Found *userAnswer // nil: no user was requested
	View  viewAnswer
}

// lookUp reads a user, and what they would see, into the page. NOT_FOUND if there is no such user: reading as an unknown user
// would create them. Its error is the outcome of the act that is recorded. It fills the body of the visit's page and does not
// write it.
func (c *Console) lookUp(v *visit, key string) error {
	var found struct{ Users []*userAnswer }
	// From here on everything is read as the user, and as no visit of theirs.
	observed := asUser(v, key)
	if !c.read(v, observed, userDocument, map[string]any{"keys": []any{key}}, &found) && len(found.Users) == 0 {
		return services.Errorf(services.Unavailable, "The user cannot be read now.")
	}
	// The answer has a place for each key, and null in it for nobody.
	if len(found.Users) != 1 || found.Users[0] == nil {
		return services.Errorf(services.NotFound, "There is no user %s.", services.Quote(key))
	}
	// As a second document, which needs a user who exists.
	var seen struct{ Viewer *viewAnswer }
	c.read(v, observed, viewDocument, nil, &seen)
	body := userBody{Found: found.Users[0]}
	if seen.Viewer != nil {
		body.View = *seen.Viewer
	}
	v.page.Body = body
	return nil
}

// showUser shows what lookUp read. named stays in the form, also when nobody was found. It is also what follows a recount.
func (c *Console) showUser(v *visit, named string, err error) {
	// Nothing is there if the look ended early; the form is shown all the same.
	body, _ := v.page.Body.(userBody)
	body.Named = named
	v.page.Title, v.page.Here, v.page.Body = "Users", root+"/users", body
	// The title is in the browser's history. It tells nothing new: the address is there too, and has the name.
	if body.Found != nil {
		v.page.Title = "User " + body.Found.User.Key
	}
	// With an error there is no user, and the form stays.
	status := http.StatusOK
	if err != nil {
		status, v.page.Error = statusOf(err), said(err)
	}
	c.show(v, status, "users")
}

// recount rebuilds a user's badges, and shows the user after it. The mutation is recorded as an act on the user, so that the
// look needs no record of its own. An error of the mutation leaves the user unread: an ID that names nobody must not be
// looked up.
func (c *Console) recount(v *visit) {
	// The form has the ID of the user who is shown.
	id := v.r.PostFormValue("user")
	var answer struct{ RecountBadges *struct{ Differed []string } }
	status := c.do(v, `mutation ($user: ID!) { recountBadges(input: {userId: $user}) { differed } }`, map[string]any{"user": id}, &answer)
	if status != http.StatusOK {
		v.page.Title, v.page.Here, v.page.Body = "Users", root+"/users", userBody{Named: id}
		c.show(v, status, "users")
		return
	}
	v.page.Notice = "The badges and the home feed were rebuilt from the facts. They had been right."
	if answer.RecountBadges != nil && len(answer.RecountBadges.Differed) > 0 {
		v.page.Notice = "The badges and the home feed were rebuilt from the facts. These parts had been wrong: " + strings.Join(answer.RecountBadges.Differed, ", ") + "."
	}
	key, err := keyOf(id)
	if err == nil {
		err = c.lookUp(v, key)
	}
	c.showUser(v, id, err)
}
