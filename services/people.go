package services

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"
)

// User is a person as the facts know him. Name and AvatarURL are "" until the host application sets them.
type User struct {
	Number    UserNumber
	Key       string
	Name      string    // to 100 characters
	AvatarURL string    // to 2,048 characters, http or https
	UpdatedAt time.Time // the last change of the profile, to the microsecond
}

// ID is the user's global id.
func (u User) ID() string { return GlobalID(UserType, u.Key) }

// Edge is one follow: what is published after Since counts for the follower; what is older is listed only.
type Edge struct {
	Follower UserNumber
	Followee UserNumber
	Since    PostID
}

// Scope is what a token allows.
type Scope string

// The scopes. A token may carry several.
const (
	ScopeViewer Scope = "viewer" // ask and act for oneself
	ScopeIngest Scope = "ingest" // the host application: act for any user
	ScopeAdmin  Scope = "admin"  // look after the installation
)

// Viewer is who asks, as the token says. It travels in the context and nothing else does.
type Viewer struct {
	Key    string  // the user's key; "" for a host application that acts for nobody in particular
	Scopes []Scope // what the token allows
	Device string  // Tidings-Device, "" when the client did not name itself
}

// Has says whether the viewer's token carries the scope.
func (v Viewer) Has(scope Scope) bool {
	for _, has := range v.Scopes {
		if has == scope {
			return true
		}
	}
	return false
}

type viewerKey struct{}

// WithViewer puts the viewer into a context.
func WithViewer(ctx context.Context, viewer Viewer) context.Context {
	return context.WithValue(ctx, viewerKey{}, viewer)
}

// ViewerFrom takes the viewer out of a context. Without one it is UNAUTHENTICATED.
func ViewerFrom(ctx context.Context) (Viewer, error) {
	viewer, ok := ctx.Value(viewerKey{}).(Viewer)
	if !ok {
		return Viewer{}, Errorf(Unauthenticated, "a token is needed: send the header Authorization: Bearer TOKEN")
	}
	return viewer, nil
}

// CheckText says whether a text of the input is fit: valid UTF-8 without NUL, from least to most characters.
func CheckText(field, text string, least, most int) error {
	if !utf8.ValidString(text) {
		return Errorf(Invalid, "%s: not valid UTF-8", field)
	}
	for i := range len(text) {
		if text[i] == 0 {
			return Errorf(Invalid, "%s: has a NUL character", field)
		}
	}
	if n := utf8.RuneCountInString(text); n < least || n > most {
		return Errorf(Invalid, "%s: %s characters are allowed, got %d", field, span(least, most), n)
	}
	return nil
}

func span(least, most int) string {
	if least == 0 {
		return fmt.Sprintf("up to %d", most)
	}
	return fmt.Sprintf("%d to %d", least, most)
}
