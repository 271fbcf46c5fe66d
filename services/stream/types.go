package stream

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"tidings/services"
)

// Change is the newest change of one user's badges. It is a whole state and not a difference: a reader needs no change before it.
type Change struct {
	User  services.UserID
	Key   string // the host application's name of the user
	Seq   uint64 // the position in the stream, and the version: a later change of any user has a greater one
	At    time.Time
	State State
}

// Part is one count of the badges.
type Part struct {
	Source  services.Source `json:"s"`
	Name    string          `json:"n,omitempty"` // the category or type, if the source has several
	Value   int             `json:"v"`
	Display string          `json:"d,omitempty"` // Value as text, such as 99+
	InTotal bool            `json:"t,omitempty"` // it is part of the total
	Changed uint64          `json:"c,omitempty"` // the version that changed it last
	Facts   uint64          `json:"f,omitempty"` // differs after each change of the facts that are counted; 0: not known. It is not shown
}

// Cause is the newest item that raised a count. Its fields are short in JSON, because each change keeps some of them.
type Cause struct {
	Source services.Source `json:"s"`
	Part   string          `json:"p,omitempty"` // the part's name
	ID     string          `json:"i,omitempty"` // the item's global ID
	At     time.Time       `json:"a"`
	Seq    uint64          `json:"q,omitempty"` // the version that reported it

	// Earlier is the version of the part's earlier alert, which this one hides. The earlier alert counts again if this item is read
	// first.
	Earlier uint64 `json:"e,omitempty"`
}

// State is what a change shows, and the data that later changes are compared with. It is stored as JSON: the zero value of an
// added field must be right for every state that was stored without the field.
type State struct {
	Total   Part     `json:"total"`
	Parts   []Part   `json:"parts"`
	Dots    []string `json:"dots,omitempty"`    // those that are lit
	DotsAt  uint64   `json:"dotsAt,omitempty"`  // the version that changed Dots last
	Quiet   bool     `json:"quiet,omitempty"`   // the user has quiet hours now
	QuietAt uint64   `json:"quietAt,omitempty"` // the version that changed Quiet last
	Newest  uint64   `json:"newest,omitempty"`  // the position of the newest notification

	// Alerts are the newest items that alerted the user and are unread, by the part's name: one of each part.
	Alerts map[string]Cause `json:"alerts,omitempty"`
	// Seen has the newest item that was reported of each part, by the part's name: only a newer one alerts. States that earlier
	// versions wrote have one item for all parts of a source, by the source's name; see newestReported.
	Seen map[string]Cause `json:"seen,omitempty"`
}

// VersionText prints a version. Compare as text: the greater one is newer.
func VersionText(seq uint64) string { return fmt.Sprintf("%016d", seq) }

// stateOf is what badges show. It has no versions: withVersions adds them.
func stateOf(badges *services.Badges) State {
	part := func(source services.Source, name string, count *services.Count) Part {
		return Part{Source: source, Name: name, Value: count.Value, Display: count.Display, InTotal: count.InTotal}
	}
	state := State{Total: part("", "", &badges.Total), Quiet: badges.Quiet, Newest: uint64(badges.Notifications.Newest)}
	for _, field := range services.CountFields {
		state.Parts = append(state.Parts, part(field.Source, "", field.Of(badges)))
	}
	for _, one := range badges.Notifications.Categories() {
		state.Parts = append(state.Parts, part(services.SourceNotifications, one.Name, &one.Count))
	}
	for i := range badges.SiteMessages.Types {
		kind := &badges.SiteMessages.Types[i]
		one := part(services.SourceSiteMessages, kind.Type, &kind.Count)
		one.Facts = kind.Version
		state.Parts = append(state.Parts, one)
	}
	talks := part(services.SourceConversations, "", &badges.Conversations.Total)
	talks.Facts = badges.Conversations.List.Own + badges.Conversations.List.Sequence
	state.Parts = append(state.Parts, talks, part(services.SourceConversations, services.MentionsPart, &badges.Conversations.Mentions))
	for _, dot := range badges.Dots {
		if dot.Lit {
			state.Dots = append(state.Dots, dot.Name)
		}
	}
	return state
}

// face is a hash of what a state shows, equal for equal states on every node. Parts of 0 are left out, so that a new source or
// category with nothing in it changes nobody's face.
func (s State) face() int64 {
	shown := State{Total: s.Total.shown(), Dots: s.Dots, Quiet: s.Quiet, Newest: s.Newest}
	for _, part := range s.Parts {
		if part.Value > 0 {
			shown.Parts = append(shown.Parts, part.shown())
		}
	}
	text, err := json.Marshal(shown)
	if err != nil {
		panic("stream: a state that is not JSON: " + err.Error())
	}
	hash := fnv.New64a()
	_, _ = hash.Write(text) // never fails
	return int64(hash.Sum64())
}

// shown is the part without the fields that are not shown.
func (p Part) shown() Part {
	p.Changed, p.Facts = 0, 0
	return p
}

// empty reports whether a state shows nothing, like a user without a change.
func (s State) empty() bool {
	return s.Total.Value == 0 && len(s.Dots) == 0 && !s.Quiet && !slices.ContainsFunc(s.Parts, func(p Part) bool { return p.Value > 0 })
}

// part finds a part; the zero one if there is none. There are some twenty parts: a map would cost more.
func (s State) part(source services.Source, name string) Part {
	for _, part := range s.Parts {
		if part.Source == source && part.Name == name {
			return part
		}
	}
	return Part{Source: source, Name: name}
}

// hasPart reports whether a state has a part, whatever its value.
func (s State) hasPart(source services.Source, name string) bool {
	return slices.ContainsFunc(s.Parts, func(p Part) bool { return p.Source == source && p.Name == name })
}

// noCount is the count of a part that no longer exists.
var noCount = services.NewCount(0, services.Exact, time.Time{})

// risenParts lists the parts of the total that are greater than before. Mentions are in the total with the messages.
func (s State) risenParts(before State) (parts []Part) {
	for _, part := range s.Parts {
		greater := part.Value > before.part(part.Source, part.Name).Value
		if part.Source == services.SourceNotifications && s.Newest > before.Newest && part.Value > 0 {
			greater = true // one item was seen and another one came: the count may be the same
		}
		if greater && s.mayAlert(part) {
			parts = append(parts, part)
		}
	}
	return parts
}

// movedParts lists the parts of the total that show something and did not rise, although the items that they count have changed: items
// were read, and others may have come.
func (s State) movedParts(before State) (parts []Part) {
	for _, part := range s.Parts {
		was := before.part(part.Source, part.Name)
		if part.Value == 0 || part.Value > was.Value || !s.mayAlert(part) {
			continue
		}
		if part.Value < was.Value || was.Facts > 0 && part.Facts != was.Facts {
			parts = append(parts, part)
		}
	}
	return parts
}

// newestReported returns the newest item that was reported of a part. States that earlier versions wrote have one item for the whole source
// only.
func (s State) newestReported(source services.Source, part string) (newest Cause, some bool) {
	if newest, some = s.Seen[services.PartName(source, part)]; some {
		return newest, true
	}
	newest, some = s.Seen[string(source)]
	return newest, some && newest.Part != "" // without a part it is the item of the whole source, not of an earlier version
}

// withVersions returns s as the state after before, with the version seq. found are the items that explain the difference. s and
// before do not change.
func (s State) withVersions(before State, seq uint64, found differenceItems) State {
	s.Parts = slices.Clone(s.Parts)
	for _, part := range before.Parts { // a removed category: a reader that keeps counts by part must learn that this one is 0
		if !s.hasPart(part.Source, part.Name) {
			s.Parts = append(s.Parts, Part{Source: part.Source, Name: part.Name, Display: noCount.Display, InTotal: part.InTotal})
		}
	}
	s.Total.Changed = changedAt(s.Total, before.Total, seq)
	for i, part := range s.Parts {
		s.Parts[i].Changed = changedAt(part, before.part(part.Source, part.Name), seq)
	}
	if s.DotsAt = before.DotsAt; !slices.Equal(s.Dots, before.Dots) {
		s.DotsAt = seq
	}
	if s.QuietAt = before.QuietAt; s.Quiet != before.Quiet {
		s.QuietAt = seq
	}
	s.Seen, s.Alerts = map[string]Cause{}, s.stillUnread(before, found.left)
	maps.Copy(s.Seen, before.Seen)
	for _, cause := range found.news {
		name := services.PartName(cause.Source, cause.Part)
		cause.Seq, cause.Earlier = seq, s.Alerts[name].Seq
		s.Seen[name], s.Alerts[name] = cause, cause
	}
	return s
}

// changedAt is the version that changed a part last. A part that was 0 or was not there, and is 0, shows nothing new: a reader of
// messages alone, for example, need not hear of a user's first like.
func changedAt(now, before Part, seq uint64) uint64 {
	if now.shown() == before.shown() || now.Value == 0 && before.Value == 0 {
		return before.Changed
	}
	return seq
}

// Silent reports whether the change has no alert for a reader who has every change up to a version. In quiet hours it has none.
func (c Change) Silent(after uint64) bool { return c.State.Quiet || c.State.Alert(after) == nil }

// Position is the progress of a reader of the stream. The zero value is a reader who has read nothing.
//
// A reader in the middle of a backlog does not have everything up to ReadTo: a later change may have replaced a user's change
// before the reader came to it, so that the user moved from before ReadTo to behind it. So FullTo, and not ReadTo, says what is
// new to the reader.
type Position struct {
	ReadTo uint64 // the last change that was read
	FullTo uint64 // ReadTo when nothing was left the last time; never greater than ReadTo
}

// After is the position of a reader at p who has read changes, the next ones. more says that further changes are left. If more is
// false, the reader has everything up to ReadTo.
func (p Position) After(changes []Change, more bool) Position {
	if len(changes) > 0 {
		p.ReadTo = changes[len(changes)-1].Seq
	}
	if !more {
		p.FullTo = p.ReadTo
	}
	return p
}
