package resolvers

import (
	"slices"
	"strconv"

	"tidings/graph"
	"tidings/services"
)

// shownUser is a user with the relation between the viewer and the user, which is the zero value if no field shows it.
type shownUser struct {
	*services.User
	relation services.Relation
}

// userObject compiles the type User, without the lists of users. It writes every user in a compiled answer, so authors and hosts look
// the same.
var userObject = objectCompiler[shownUser]{"User", map[string]fieldCompiler[shownUser]{
	"id":            leaf(func(to []byte, u *shownUser) []byte { return appendID(to, services.UserType, u.Key) }),
	"key":           leaf(func(to []byte, u *shownUser) []byte { return graph.AppendText(to, u.Key) }),
	"name":          leaf(func(to []byte, u *shownUser) []byte { return appendTextOrNull(to, u.Name) }),
	"avatarUrl":     leaf(func(to []byte, u *shownUser) []byte { return appendTextOrNull(to, u.AvatarURL) }),
	"viewerFollows": leaf(func(to []byte, u *shownUser) []byte { return strconv.AppendBool(to, u.relation.Follows) }),
	"followsViewer": leaf(func(to []byte, u *shownUser) []byte { return strconv.AppendBool(to, u.relation.Followed) }),
	"viewerMutes":   leaf(func(to []byte, u *shownUser) []byte { return strconv.AppendBool(to, u.relation.Mutes) }),
	"viewerBlocks":  leaf(func(to []byte, u *shownUser) []byte { return strconv.AppendBool(to, u.relation.Blocks) }),
	// The mode belongs to the viewer's follow, so it is null without one.
	"viewerFollowMode": leaf(func(to []byte, u *shownUser) []byte {
		if !u.relation.Follows {
			return append(to, "null"...)
		}
		return graph.AppendText(to, string(followModes[u.relation.Mode]))
	}),
	"viewerHides": leaf(func(to []byte, u *shownUser) []byte { return strconv.AppendBool(to, u.relation.Hides) }),
}}

// selectsRelations reports whether a field needs the relation between the viewer and users. A new field in userObject that depends on the
// relation must be added here: otherwise its value would always be that of no relation. The test that compares all fields finds this.
func (w wantedFields) selectsRelations() bool {
	for _, field := range []string{"viewerFollows", "followsViewer", "viewerMutes", "viewerBlocks", "viewerHides", "viewerFollowMode"} {
		if len(w["User."+field]) > 0 {
			return true
		}
	}
	return false
}

// userIDsOf returns the IDs of the users of a page's items, each once: one author may have written many of them.
func userIDsOf[I any](items []I, user func(*I) *services.User) []services.UserID {
	numbers := make([]services.UserID, len(items))
	for i := range items {
		numbers[i] = user(&items[i]).Number
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}
