package services

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"
)

// User is a user as the facts have them. Name and AvatarURL are "" until the host application sets them.
type User struct {
	ID        UserID
	Key       string    // the application's name of the user
	Name      string    // up to 100 characters
	AvatarURL string    // up to 2,048 characters, http or https
	UpdatedAt time.Time // the last change of the profile, to the microsecond
}

// GlobalID is the ID of the user in the API: type:key.
func (u User) GlobalID() string { return GlobalID(UserType, u.Key) }

// FollowMode says which items of a followed user count in the follower's badges. In every mode all items are listed.
type FollowMode int

// The modes of follows.
const (
	FollowAll      FollowMode = iota // posts and live shows count
	FollowLiveOnly                   // only live shows count
	FollowNone                       // nothing counts
)

// FollowEdge is one follow. Posts published after PostsCountAfter count for the follower, and so do shows that go live after
// FollowedAt, unless Mode is FollowNone. Older posts and shows are only listed.
type FollowEdge struct {
	Follower        UserID
	Followee        UserID
	PostsCountAfter PostID     // MaxPostID if the mode lets no posts count
	FollowedAt      SortableID // an ID of the time of the follow
	Mode            FollowMode
}

// AsPulledAuthor returns the follow of an author whose posts are pulled, as an entry of the follower's document.
func (e FollowEdge) AsPulledAuthor() FollowedAuthor {
	return FollowedAuthor{Author: e.Followee, ItemsCountAfter: SortableID(e.PostsCountAfter)}
}

// AsFollowedHost returns the follow of a host of shows, as an entry of the follower's document.
func (e FollowEdge) AsFollowedHost() FollowedAuthor {
	return FollowedAuthor{Author: e.Followee, ItemsCountAfter: e.FollowedAt, CountsNothing: e.Mode == FollowNone}
}

// RestrictionKind is the kind of a restriction between two users.
type RestrictionKind string

// The kinds of restrictions.
const (
	Mute  RestrictionKind = "MUTE"  // the owner's feed shows nothing of the other user
	Block RestrictionKind = "BLOCK" // the two are separated: no follows, no notifications, no direct messages
	Hide  RestrictionKind = "HIDE"  // to the other user, the owner's posts and shows do not exist
)

// Restriction is one user's restriction of another.
type Restriction struct {
	Kind   RestrictionKind
	Owner  UserID     // the user who made the restriction
	Other  UserID     // the user who is muted, blocked or hidden from
	MadeAt SortableID // when it was made: an ID has a time in it
	Until  time.Time  // of a mute: when it ends by itself; zero for never
}

// AffectedFollow is the follow that a mute or a hide makes ineffective, whether the follow exists or not.
func (r Restriction) AffectedFollow() FollowEdge {
	if r.Kind == Hide {
		return FollowEdge{Follower: r.Other, Followee: r.Owner}
	}
	return FollowEdge{Follower: r.Owner, Followee: r.Other}
}

// Scope is what a token allows.
type Scope string

// The scopes. A token may carry several.
const (
	ScopeViewer Scope = "viewer" // read and act as oneself
	ScopeIngest Scope = "ingest" // the host application: act for any user
	ScopeAdmin  Scope = "admin"  // operate the installation
)

// Viewer is the caller, according to the token. It travels in the context.
type Viewer struct {
	Key    string  // the user's key; "" for a host application that acts for no particular user
	Scopes []Scope // what the token allows
	Device string  // the Tidings-Device header, "" if the client did not send one

	// Subject is the user that the token names, also while the host application acts for another user; "" if it names none.
	Subject string
}

// Has reports whether the viewer's token carries the scope.
func (v Viewer) Has(scope Scope) bool {
	for _, has := range v.Scopes {
		if has == scope {
			return true
		}
	}
	return false
}

type viewerKey struct{} // the key of the viewer in a context

// WithViewer puts the viewer into a context.
func WithViewer(ctx context.Context, viewer Viewer) context.Context {
	return context.WithValue(ctx, viewerKey{}, viewer)
}

// ViewerFrom returns the viewer of a context. Without one the error is UNAUTHENTICATED.
func ViewerFrom(ctx context.Context) (Viewer, error) {
	viewer, ok := ctx.Value(viewerKey{}).(Viewer)
	if !ok {
		return Viewer{}, Errorf(Unauthenticated, "a token is needed: send the header Authorization: Bearer TOKEN")
	}
	return viewer, nil
}

type observedKey struct{} // the key that marks the context of an observer

// Observe returns a context for reading what a user would see without a visit of the user: nobody becomes active, no position
// moves, and nothing is made or rebuilt. It applies to badges, the home feed and lists. A live board has sessions, and cannot be
// observed.
func Observe(ctx context.Context) context.Context { return context.WithValue(ctx, observedKey{}, true) }

// Observed reports whether a context comes from Observe.
func Observed(ctx context.Context) bool { return ctx.Value(observedKey{}) != nil }

// CheckText checks an input text: it must be UTF-8 without NUL and have from least to most characters. Otherwise the error is
// INVALID.
func CheckText(field, text string, least, most int) error {
	if !utf8.ValidString(text) {
		return Errorf(Invalid, "%s: not valid UTF-8", field)
	}
	// PostgreSQL refuses NUL in a text, SQLite stores it: this check refuses it for both.
	for i := range len(text) {
		if text[i] == 0 {
			return Errorf(Invalid, "%s: has a NUL character", field)
		}
	}
	switch n := utf8.RuneCountInString(text); {
	case n <= most && n >= least:
		return nil
	case least == 0:
		return Errorf(Invalid, "%s: up to %d characters are allowed, got %d", field, most, n)
	default:
		return Errorf(Invalid, "%s: %d to %d characters are allowed, got %d", field, least, most, n)
	}
}

// CheckFilled checks an input text for people: by the rules of CheckText, with at least 1 character, and not white space alone.
func CheckFilled(field, text string, most int) error {
	if err := CheckText(field, text, 1, most); err != nil {
		return err
	}
	if strings.TrimSpace(text) == "" {
		return Errorf(Invalid, "%s: 1 to %d characters are allowed, got nothing but white space", field, most)
	}
	return nil
}

// NoUserError is the error for a user, named in an argument by their key, who does not exist or whose existence the caller may not
// learn. The error does not distinguish the two cases.
func NoUserError(argument, key string) error {
	return Errorf(NotFound, "%s: there is no user %s", argument, Quote(key))
}
