package resolvers

import (
	"slices"
	"strconv"

	"tidings/graph"
	"tidings/services"
	"tidings/services/live"
)

// appenders append the fields of badges and pages in hot operations that a resolver answers elsewhere. They also append IDs and
// cursors, which would otherwise be a text for each item. All other fields of hot operations are compiled from the schema.
var appenders = graph.Appenders{
	"Badges.id": func(to []byte, b *services.Badges) []byte { return appendID(to, services.BadgesType, b.Key) },
	"NotificationBadges.newest": func(to []byte, n *services.NotificationCounts) []byte {
		if n.Newest == 0 {
			return append(to, "null"...)
		}
		return graph.AppendText(to, services.FormatNotificationUpTo(n.Newest))
	},

	"PostEdge.cursor": func(to []byte, e *graph.PostEdge) []byte {
		return appendFeedCursor(to, e.Node.Read.Viewer, e.Node.Number)
	},
	"Post.id": func(to []byte, p *graph.Post) []byte { return appendPostID(to, p.Number) },
	"Post.parentId": func(to []byte, p *graph.Post) []byte {
		if p.ParentNumber == 0 {
			return append(to, "null"...)
		}
		return appendPostID(to, p.ParentNumber)
	},
	"Post.viewerCanEdit": func(to []byte, p *graph.Post) []byte { return strconv.AppendBool(to, p.AuthorID == p.Read.Viewer) },
	"Post.viewerHasLiked": func(to []byte, p *graph.Post) []byte {
		return strconv.AppendBool(to, p.Read.Engagements[p.Number].LikedByViewer)
	},
	"Post.likeCount":    func(to []byte, p *graph.Post) []byte { return appendInt(to, p.Read.Engagements[p.Number].Likes) },
	"Post.commentCount": func(to []byte, p *graph.Post) []byte { return appendInt(to, p.Read.Engagements[p.Number].Comments) },
	"Post.ref": func(to []byte, p *graph.Post) []byte {
		return appendTextOrNull(to, p.Read.Labels[postObject(p.Number)].Ref)
	},
	"Post.url": func(to []byte, p *graph.Post) []byte {
		return appendTextOrNull(to, p.Read.Labels[postObject(p.Number)].URL)
	},
	"Post.data": func(to []byte, p *graph.Post) []byte { return appendData(to, p.Read.Labels[postObject(p.Number)].Data) },

	"LiveBoardEdge.cursor": func(to []byte, e *graph.LiveBoardEdge) []byte {
		return append(live.AppendCursor(append(to, '"'), e.Node.Read.Session, e.Position), '"')
	},
	"Show.id": func(to []byte, s *graph.Show) []byte { return appendShowID(to, s.Number) },
	"Show.ref": func(to []byte, s *graph.Show) []byte {
		return appendTextOrNull(to, s.Read.Labels[showObjectOf(s.Number)].Ref)
	},
	"Show.url": func(to []byte, s *graph.Show) []byte {
		return appendTextOrNull(to, s.Read.Labels[showObjectOf(s.Number)].URL)
	},
	"Show.data": func(to []byte, s *graph.Show) []byte {
		return appendData(to, s.Read.Labels[showObjectOf(s.Number)].Data)
	},
	"Show.remindsMe":         func(to []byte, s *graph.Show) []byte { return strconv.AppendBool(to, s.Read.Reminds[s.Number]) },
	"Show.viewerHasReminder": func(to []byte, s *graph.Show) []byte { return strconv.AppendBool(to, s.Read.Reminds[s.Number]) },

	"User.id":            func(to []byte, u *graph.User) []byte { return appendID(to, services.UserType, u.Key) },
	"User.viewerFollows": func(to []byte, u *graph.User) []byte { return strconv.AppendBool(to, u.Relations[u.UserID].Follows) },
	"User.followsViewer": func(to []byte, u *graph.User) []byte {
		return strconv.AppendBool(to, u.Relations[u.UserID].FollowsViewer)
	},
	"User.viewerMutes":  func(to []byte, u *graph.User) []byte { return strconv.AppendBool(to, u.Relations[u.UserID].Mutes) },
	"User.viewerBlocks": func(to []byte, u *graph.User) []byte { return strconv.AppendBool(to, u.Relations[u.UserID].Blocks) },
	"User.viewerHides":  func(to []byte, u *graph.User) []byte { return strconv.AppendBool(to, u.Relations[u.UserID].Hides) },
	// The mode belongs to the viewer's follow, so it is null without one.
	"User.viewerFollowMode": func(to []byte, u *graph.User) []byte {
		relation := u.Relations[u.UserID]
		if !relation.Follows {
			return append(to, "null"...)
		}
		return graph.AppendText(to, string(followModes[relation.Mode]))
	},
}

// appendInt writes a number.
func appendInt(to []byte, n int) []byte { return strconv.AppendInt(to, int64(n), 10) }

// appendTextOrNull writes "" as null.
func appendTextOrNull(to []byte, text string) []byte {
	if text == "" {
		return append(to, "null"...)
	}
	return graph.AppendText(to, text)
}

// appendID writes a global ID in the form of services.GlobalID. A key that needs no escapes is written as it is, and an escaped
// key needs no further escapes for JSON.
func appendID(to []byte, kind, key string) []byte {
	to = append(append(append(to, '"'), kind...), ':')
	return append(services.AppendEscapedKey(to, key), '"')
}

// appendPostID writes the global ID of a post.
func appendPostID(to []byte, id services.PostID) []byte {
	return appendID(to, services.PostType, id.String())
}

// appendShowID writes the global ID of a show.
func appendShowID(to []byte, id services.ShowID) []byte {
	return appendID(to, services.ShowType, id.String())
}

// appendFeedCursor writes a position in the viewer's feed.
func appendFeedCursor(to []byte, viewer services.UserID, position services.PostID) []byte {
	return append(feedCursor.append(append(to, '"'), viewer, uint64(position)), '"')
}

// fillHotUser makes a user of a page that is written without resolvers: without an ID, which an appender writes. The texts are
// those of from, which must stay as it is until the page is written.
func fillHotUser(to *graph.User, from *services.User, relations map[services.UserID]services.Relation) {
	to.UserID, to.Key, to.Relations = from.ID, from.Key, relations
	to.Name, to.AvatarURL = textPointerOrNull(&from.Name), textPointerOrNull(&from.AvatarURL)
}

// textPointerOrNull returns the pointer itself; nil for an empty text. Unlike orNull, it makes no copy of the text.
func textPointerOrNull(text *string) *string {
	if *text == "" {
		return nil
	}
	return text
}

// selectsRelations reports whether a field needs the relation between the viewer and users. A field whose appender reads
// User.Relations must be added here: otherwise its value would always be that of no relation. The test that compares all fields
// finds this.
func (w selectedFields) selectsRelations() bool {
	for _, field := range []string{"viewerFollows", "followsViewer", "viewerMutes", "viewerBlocks", "viewerHides", "viewerFollowMode"} {
		if len(w["User."+field]) > 0 {
			return true
		}
	}
	return false
}

// userIDsOf returns the IDs of the users of a page's items, each once: one author may have written many of them.
func userIDsOf[I any](items []I, user func(*I) *services.User) []services.UserID {
	ids := make([]services.UserID, len(items))
	for i := range items {
		ids[i] = user(&items[i]).ID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
