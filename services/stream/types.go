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
	Key   string    // the host application's name of the user
	Seq   uint64    // the position in the stream, and the version: a later change of any user has a greater one
	At    time.Time // when it was written
	State State
}

// Part is one count of the badges.
type Part struct {
	Source         services.Source `json:"s"`
	Name           string          `json:"n,omitempty"` // the category or type, if the source has several
	Value          int             `json:"v"`
	Display        string          `json:"d,omitempty"` // Value as text, such as 99+
	InTotal        bool            `json:"t,omitempty"` // it is part of the total
	ChangedVersion uint64          `json:"c,omitempty"` // the version that changed it last
	FactsVersion   uint64          `json:"f,omitempty"` // differs after each change of the counted facts; 0: not known. Not shown
}

// AlertItem is the newest item that raised a count. Its fields are short in JSON, because each change keeps some of them.
type AlertItem struct {
	Source services.Source `json:"s"`
	Part   string          `json:"p,omitempty"` // the part's name
	ID     string          `json:"i,omitempty"` // the item's global ID
	At     time.Time       `json:"a"`           // the time of the item
	Seq    uint64          `json:"q,omitempty"` // the version that reported it

	// EarlierAlertSeq is the version of the part's earlier alert, which this one hides. The earlier alert counts again if this item
	// is read first.
	EarlierAlertSeq uint64 `json:"e,omitempty"`

	// Ahead says that the total of the version lacks some items, which may include this one. So the item alerts again once all of them
	// are counted: a device that takes only alerts would keep the lower total.
	Ahead bool `json:"l,omitempty"`
}

// covers reports whether an alert of item would be no news after a.
func (a AlertItem) covers(item AlertItem) bool {
	// An item of the same time with another ID is a new one.
	if item.At.Equal(a.At) {
		return item.ID == a.ID && (item.Ahead || !a.Ahead)
	}
	return item.At.Before(a.At)
}

// State is what a change shows, and the data that later changes are compared with. It is stored as JSON: the zero value of an
// added field must be right for every state that was stored without the field.
type State struct {
	Total                      Part     `json:"total"`
	Parts                      []Part   `json:"parts"`
	Dots                       []string `json:"dots,omitempty"`    // those that are lit
	DotsVersion                uint64   `json:"dotsAt,omitempty"`  // the version that changed Dots last
	Quiet                      bool     `json:"quiet,omitempty"`   // the user has quiet hours now
	QuietVersion               uint64   `json:"quietAt,omitempty"` // the version that changed Quiet last
	NewestNotificationPosition uint64   `json:"newest,omitempty"`  // the position of the newest notification

	// Alerts are the newest items that alerted the user and are unread, by the part's name: one of each part.
	Alerts map[string]AlertItem `json:"alerts,omitempty"`
	// NewestReported has the newest item that was reported of each part, by the part's name: only a newer one alerts. States that
	// earlier versions wrote have one item for all parts of a source, by the source's name. The method newestReported reads both.
	NewestReported map[string]AlertItem `json:"seen,omitempty"`
}

// VersionText prints a version. Compare as text: the greater one is newer.
func VersionText(seq uint64) string { return fmt.Sprintf("%016d", seq) }

// partOf is what one count of the badges shows.
func partOf(one services.BadgePart) Part {
	count := one.Count
	return Part{Source: one.Source, Name: one.Name, Value: count.Value, Display: count.Display, InTotal: count.InTotal, FactsVersion: one.FactsVersion}
}

// stateOf is what badges show. It has no versions: withVersions adds them.
func stateOf(badges *services.Badges) State {
	state := State{Total: partOf(services.BadgePart{Count: &badges.Total}), Quiet: badges.Quiet, NewestNotificationPosition: uint64(badges.Notifications.Newest)}
	for one := range badges.Parts {
		state.Parts = append(state.Parts, partOf(one))
	}
	for _, dot := range badges.Dots {
		if dot.Lit {
			state.Dots = append(state.Dots, dot.Name)
		}
	}
	return state
}

// shownHash is a hash of what a state shows, equal for equal states on every node. Parts of 0 are left out, so that a new source or
// category with nothing in it changes nobody's hash.
func (s State) shownHash() int64 {
	shown := State{Total: s.Total.onlyShownFields(), Dots: s.Dots, Quiet: s.Quiet, NewestNotificationPosition: s.NewestNotificationPosition}
	for _, part := range s.Parts {
		if part.Value > 0 {
			shown.Parts = append(shown.Parts, part.onlyShownFields())
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

// onlyShownFields is the part without the fields that are not shown.
func (p Part) onlyShownFields() Part {
	p.ChangedVersion, p.FactsVersion = 0, 0
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
		if part.Source == services.SourceNotifications && s.NewestNotificationPosition > before.NewestNotificationPosition && part.Value > 0 {
			greater = true // one item was seen and another one came: the count may be the same
		}
		if greater && s.mayAlert(part) {
			parts = append(parts, part)
		}
	}
	return parts
}

// partsWithChangedItems lists the parts of the total that show something and did not rise, although the items that they count have
// changed: items were read, and others may have come.
func (s State) partsWithChangedItems(before State) (parts []Part) {
	for _, part := range s.Parts {
		was := before.part(part.Source, part.Name)
		if part.Value == 0 || part.Value > was.Value || !s.mayAlert(part) {
			continue
		}
		if part.Value < was.Value || was.FactsVersion > 0 && part.FactsVersion != was.FactsVersion {
			parts = append(parts, part)
		}
	}
	return parts
}

// newestReported returns the newest item that was reported of a part. States that earlier versions wrote have one item for the
// whole source only.
func (s State) newestReported(source services.Source, part string) (newest AlertItem, some bool) {
	if newest, some = s.NewestReported[services.PartName(source, part)]; some {
		return newest, true
	}
	newest, some = s.NewestReported[string(source)]
	return newest, some && newest.Part != "" // without a part it is the item of the whole source, not of an earlier version
}

// withVersions returns s as the state after before, with the version seq. found are the items that explain the difference. s and
// before do not change.
func (s State) withVersions(before State, seq uint64, found explainingItems) State {
	s.Parts = slices.Clone(s.Parts)
	for _, part := range before.Parts { // a removed category: a reader that keeps counts by part must learn that this one is 0
		if !s.hasPart(part.Source, part.Name) {
			s.Parts = append(s.Parts, Part{Source: part.Source, Name: part.Name, Display: noCount.Display, InTotal: part.InTotal})
		}
	}
	s.Total.ChangedVersion = changedVersion(s.Total, before.Total, seq)
	for i, part := range s.Parts {
		s.Parts[i].ChangedVersion = changedVersion(part, before.part(part.Source, part.Name), seq)
	}
	if s.DotsVersion = before.DotsVersion; !slices.Equal(s.Dots, before.Dots) {
		s.DotsVersion = seq
	}
	if s.QuietVersion = before.QuietVersion; s.Quiet != before.Quiet {
		s.QuietVersion = seq
	}
	s.NewestReported, s.Alerts = map[string]AlertItem{}, s.unreadAlerts(before, found.newestOfFallenParts)
	maps.Copy(s.NewestReported, before.NewestReported)
	for _, cause := range found.newItems {
		name := services.PartName(cause.Source, cause.Part)
		cause.Seq, cause.EarlierAlertSeq = seq, s.Alerts[name].Seq
		s.NewestReported[name], s.Alerts[name] = cause, cause
	}
	return s
}

// changedVersion is the version that changed a part last. A part that was 0 or was not there, and is 0, shows nothing new: a reader of
// messages alone, for example, need not hear of a user's first like.
func changedVersion(now, before Part, seq uint64) uint64 {
	if now.onlyShownFields() == before.onlyShownFields() || now.Value == 0 && before.Value == 0 {
		return before.ChangedVersion
	}
	return seq
}

// Silent reports whether the change has no alert for a reader who has every change up to a version. In quiet hours it has none.
func (c Change) Silent(after uint64) bool { return c.State.Quiet || c.State.NewestAlert(after) == nil }

// Position is the progress of a reader of the stream. The zero value is a reader who has read nothing.
//
// A reader in the middle of a backlog does not have everything up to ReadTo: a later change may have replaced a user's change
// before the reader came to it, so that the user moved from before ReadTo to behind it. So DrainedTo, and not ReadTo, says what is
// new to the reader.
type Position struct {
	ReadTo    uint64 // the last change that was read
	DrainedTo uint64 // ReadTo at the last time when no change was left to read; never greater than ReadTo
}

// AfterReading is the position of a reader at p who has read changes, the next ones. more says that further changes are left. If
// more is false, the reader has everything up to ReadTo.
func (p Position) AfterReading(changes []Change, more bool) Position {
	if len(changes) > 0 {
		p.ReadTo = changes[len(changes)-1].Seq
	}
	if !more {
		p.DrainedTo = p.ReadTo
	}
	return p
}
