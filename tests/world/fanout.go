package world

// AudienceFields are the fields of an Audience.
const AudienceFields = `user{id} followers mode pinned`

// FanoutFields are the fields of admin.fanout.
const FanoutFields = `bigFollowers hugeFollowers waiting lagMs`

// fanoutState is admin.fanout as a client sees it.
type fanoutState struct{ BigFollowers, HugeFollowers, Waiting, LagMs int }

// FanoutState reads admin.fanout as an operator.
func (n *Node) FanoutState() fanoutState {
	n.TB.Helper()
	var data struct{ Admin struct{ Fanout fanoutState } }
	n.Must("root:admin", `{admin{fanout{`+FanoutFields+`}}}`, nil, &data)
	return data.Admin.Fanout
}

// Audience is admin.author as a client sees it.
type Audience struct {
	User      struct{ ID string }
	Followers int
	Mode      string  // SMALL, BIG or HUGE
	Pinned    *string // the mode that an operator pinned; nil: none
}

// Audience reads admin.author of the user with the key as an operator.
func (n *Node) Audience(key string) Audience {
	n.TB.Helper()
	var data struct{ Admin struct{ Author Audience } }
	n.Must("root:admin", `query($u:ID!){admin{author(userId:$u){`+AudienceFields+`}}}`, map[string]any{"u": "user:" + key}, &data)
	return data.Admin.Author
}
