package world

// AuthorAudienceFields selects the fields of AuthorAudience in a query.
const AuthorAudienceFields = `user{id} followers mode pinned`

// FanoutFields selects the fields of admin.fanout in a query.
const FanoutFields = `bigFollowers hugeFollowers waiting lagMs`

// fanoutState is admin.fanout as a client sees it: the numbers of followers from which an author is big or huge, the number of jobs that
// bring posts or deletions to followers, and the age of the oldest post in flight in milliseconds.
type fanoutState struct{ BigFollowers, HugeFollowers, Waiting, LagMs int }

// FanoutState reads admin.fanout as an operator.
func (n *Node) FanoutState() fanoutState {
	n.TB.Helper()
	var data struct{ Admin struct{ Fanout fanoutState } }
	n.MustAsk("root:admin", `{admin{fanout{`+FanoutFields+`}}}`, nil, &data)
	return data.Admin.Fanout
}

// AuthorAudience is the number of an author's followers and the author's mode, as the field admin.author tells an operator.
type AuthorAudience struct {
	User      struct{ ID string }
	Followers int
	Mode      string  // SMALL, BIG or HUGE
	Pinned    *string // the mode that an operator pinned; nil: none
}

// AuthorAudience reads admin.author of the user with the key as an operator.
func (n *Node) AuthorAudience(key string) AuthorAudience {
	n.TB.Helper()
	var data struct {
		Admin struct{ Author AuthorAudience }
	}
	n.MustAsk("root:admin", `query($u:ID!){admin{author(userId:$u){`+AuthorAudienceFields+`}}}`, map[string]any{"u": "user:" + key}, &data)
	return data.Admin.Author
}
