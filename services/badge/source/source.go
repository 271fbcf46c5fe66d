// Package source has the types that a source of the badges works with: the rendering of one document, the settings of all
// renderings, and the forms of explanations and digests. Sources implement badge.Source.
//
// The features, which implement sources, and services/badge, which lists them, import this package and not each other.
package source

import (
	"context"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

// DisplayCaps are the largest numbers shown in full, by source; CapTotal is the total's. A missing source has the standard cap.
type DisplayCaps map[services.Source]int

// CapTotal is the key of the total's cap.
const CapTotal services.Source = "TOTAL"

// Of is the cap of a source.
func (c DisplayCaps) Of(source services.Source) int {
	if limit, set := c[source]; set {
		return limit
	}
	return services.DisplayCap
}

// FeedCountLimit is the number up to which new posts are counted: the length of a feed, or more if the cap is higher.
func (c DisplayCaps) FeedCountLimit() int {
	return max(services.FeedRetention, c.Of(services.SourceHomeFeed)+1, c.Of(CapTotal)+1)
}

// Settings are shared by all renderings of a service.
type Settings struct {
	Caps   DisplayCaps           // the largest numbers shown in full
	Expiry services.SourceExpiry // of all sources except notifications, which have their own expiry
}

// Moment is the time at which a document is shown, with the state that all users share at that time.
type Moment struct {
	Now          time.Time // by this node's clock
	MonotonicNow time.Time // Now, or the latest moment shown so far if the clock was set back: no day passes twice
	// SharedState is the state that the SharedStateSource among the sources returned; nil if it is unknown.
	SharedState any
}

// Today is the day of the moment, since 1970.
func (m Moment) Today() int64 { return services.DayOf(m.MonotonicNow) }

// SharedStateSource is a source with state that all users share. At most one source implements it.
type SharedStateSource interface {
	// SharedState returns the state at a moment. It is called before the documents are read, so that no document is older than the
	// state shown with it.
	SharedState(ctx context.Context, now time.Time) (any, error)
}

// ExpiringSource is a source whose count in a document includes items that have become too old since: Redis counted them as of a day,
// and rendering does not take them out. Sources that keep counts by day, or compute them from the node cache at rendering,
// need not implement it.
type ExpiringSource interface {
	// HoldsExpired reports whether a document that is ready may count items that are too old on a day (since 1970).
	HoldsExpired(document *rdb.Document, today int64) bool
	// RemoveExpired takes the items that are too old on a day out of users' documents.
	RemoveExpired(ctx context.Context, users []services.UserID, today int64) error
}

// SQLReader is a source whose AddCached may ask SQL, for what the node cache does not hold.
type SQLReader interface {
	// AddWithoutSQL adds to a user's document, which is ready, what AddCached adds, as far as this node holds it. It reports whether
	// that is all of it: if not, AddCached would ask SQL.
	AddWithoutSQL(user services.UserID, document *rdb.Document, today int64) (complete bool)
}

// AlertFilter is a source some of whose items do not alert the user, such as notifications of categories for which the user
// refused alerts.
type AlertFilter interface {
	// Alerting returns a function that reports whether an item may alert the user, by the part of its count and its time.
	Alerting(ctx context.Context, user services.UserID) (func(part string, at time.Time) bool, error)
}

// NewestFinder is a source that finds the newest items of its counts in another way than by Explain: without a read of the facts,
// or for a count that Explain does not list.
type NewestFinder interface {
	// Newest explains the counts of a user by the newest items of each. known is false if only Explain can tell. If items can be in
	// the facts before they are in the count, Newest lists enough items to add up to more than the count in that moment.
	Newest(ctx context.Context, of ExplainRequest) (explanations []services.Explanation, known bool, err error)
}

// Rendering is one rendering of badges: the document, the state that all users share, and the moment. Each source writes its part of the
// badges from it, and says when time alone changes that part next.
type Rendering struct {
	*Settings
	Document rdb.Document
	Moment
	// SequenceSum is a sum of values that only rise, over everything that these badges share with others: the sequence of each shared list
	// or conversation, and the number of boundaries that time has passed. It rises with each sequence and boundary, in whatever order this
	// node learns of these, and is greatest on the node that knows all. A maximum would not do: it would stay the same when a sequence moves
	// that is below another one.
	SequenceSum uint64
	// SequenceSumWithoutTime is the part of SequenceSum that time does not change.
	SequenceSumWithoutTime uint64
	// NextChangeAt is when time alone changes the badges; zero if it never does.
	NextChangeAt time.Time
}

// RecordChangeAt records that time alone changes the badges at a moment.
func (v *Rendering) RecordChangeAt(at time.Time) {
	if !at.IsZero() && at.After(v.Now) && (v.NextChangeAt.IsZero() || at.Before(v.NextChangeAt)) {
		v.NextChangeAt = at
	}
}

// AddSequence adds the sequence of something that users share, such as the announcements or a conversation. Every node reads the sequence
// from SQL, so that it never falls for a user, whichever node answers or restarts.
func (v *Rendering) AddSequence(sequence uint64) {
	v.SequenceSum += sequence
	v.SequenceSumWithoutTime += sequence
}

// AddTimeBoundaries adds the number of boundaries since 1970 at which time changes these badges.
func (v *Rendering) AddTimeBoundaries(boundaries int64) { v.SequenceSum += uint64(max(0, boundaries)) }

// RecordExpiry records that the counted items of a source leave its count as days pass. Each day is a boundary of all badges, because
// notifications expire by day.
func (v *Rendering) RecordExpiry(source services.Source, value int) {
	if value > 0 && v.Expiry.Expires(source) {
		v.RecordChangeAt(services.DayStart(v.Today() + 1))
	}
}

// ShownBadges are the badges that a rendering showed at a moment, with the display policy by which it showed them. The readers of the
// badges share them, so they must not be changed. ShownBadges holds no Rendering: a document is larger than the badges, because it lists
// the authors that its user follows.
type ShownBadges struct {
	Policy services.DisplayPolicy
	Badges *services.Badges
	At     time.Time // when the badges were shown
}

// ExplainRequest is a request to explain the counts of a user, with their badges and the positions up to which they have seen the
// home feed and the live board (SeenPositions).
type ExplainRequest struct {
	User          services.UserID
	Badges        *services.Badges  // whose counts are explained
	SeenPositions map[string]uint64 // by the codes of views: see positions.OfUser
	Today         int64             // the day, since 1970
	Limit         int               // the most items wanted of one count; 0: MaxExplainedItems. A source may list more
}

// MaxItems is the largest number of items to list for one count.
func (e ExplainRequest) MaxItems() int {
	if e.Limit > 0 {
		return e.Limit
	}
	return MaxExplainedItems
}

// MaxExplainedItems bounds the items of one count. Only counts far beyond every cap have more.
const MaxExplainedItems = 1000

// ClearingMutation prints the mutation that clears an item, as a whole operation that is ready to be sent. Its input has one field, the
// argument, with the ID.
func ClearingMutation(mutation, argument, id string) string {
	return ClearingMutationWithInput(mutation, fmt.Sprintf("%s: %q", argument, id))
}

// ClearingMutationWithInput prints the mutation that clears an item, as a whole operation that is ready to be sent. input is the text
// between the braces of its input.
func ClearingMutationWithInput(mutation, input string) string {
	return fmt.Sprintf("mutation { %s(input: {%s}) { badges { version total { value display } } } }", mutation, input)
}

// AddDigestPart adds a source's number of items to a digest; a count that reaches the bound is AT_LEAST.
func AddDigestPart(digest *services.Digest, source services.Source, part string, count, bound int) {
	precision := services.Exact
	if count >= bound {
		precision = services.AtLeast
	}
	digest.Parts = append(digest.Parts, services.DigestPart{Source: source, Part: part, Count: services.NewCount(count, precision, time.Time{})})
}

// ExactCount returns an exact count.
func ExactCount(value int) services.Count {
	return services.NewCount(value, services.Exact, time.Time{})
}

// SinglePart returns the parts of a source with one count: the count as part 0, and nil for each further one.
func SinglePart(count *services.Count, i int) *services.Count {
	if i > 0 {
		return nil
	}
	return count
}

// DefaultMethods has the methods of a source without special needs: it has only counts to copy, no state in the node cache, nothing
// in the document of a user without items, no sum, and no count within its parts.
type DefaultMethods struct{}

// Empty does nothing.
func (DefaultMethods) Empty(*rdb.Document) {}

// CopyNonCounts copies nothing.
func (DefaultMethods) CopyNonCounts(*Rendering, *services.Badges, ShownBadges) {}

// Follow follows nothing.
func (DefaultMethods) Follow(services.UserID, *rdb.Document) {}

// AddCached adds nothing.
func (DefaultMethods) AddCached(context.Context, []services.UserID, []rdb.Document, int64) {}

// Sum is nil: the source has one part.
func (DefaultMethods) Sum(*services.Badges) *services.Count { return nil }

// Within is nil: no count is within the parts.
func (DefaultMethods) Within(*services.Badges) *services.Count { return nil }
