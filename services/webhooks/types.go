package webhooks

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/stream"
)

// The limits of endpoints.
const (
	// maxEndpoints is how many endpoints an installation can have. Each costs a goroutine that reads the whole change stream.
	maxEndpoints     = 50
	MaxSecretOverlap = 30 * 24 * time.Hour // the longest time for which former secrets sign after a rotation
	maxSecrets       = 5                   // how many secrets of one endpoint sign at once
)

// Filter chooses the changes that an endpoint gets. The zero value chooses all.
type Filter struct {
	OnlyAway   bool     // only of users without an open socket; the others' changes are sent once they have closed it
	OnlyTotals bool     // only changes of the total or of quiet hours, and changes that alert; without the counts behind the total
	Sources    []string // only changes of these: SOURCE, or SOURCE:PART; none: all
}

// Endpoint is an address that events are sent to, as operators see it.
type Endpoint struct {
	Name      string
	URL       string
	Filter    Filter
	CreatedAt time.Time

	SigningSecrets  int       // secrets that sign now: two or more during the overlap of a rotation
	HasDeliverer    bool      // a node has the lease of the endpoint and delivers it
	Node            string    // the last node that delivered
	DeliveredEvents int       // events that the receiver accepted
	WaitingUsers    int       // users whose newest change is not delivered: its request failed, or it waits until the user is away
	DeadLetters     int       // users whose newest change was given up
	OldestUnsentAt  time.Time // the time of the oldest change in the stream that the endpoint has not read; zero: it has read all
	FailuresInRow   int       // requests that failed since the last success
	RetryAt         time.Time // when it is tried again, if it is down
	ReceiverGoneAt  time.Time // when the receiver answered 410 Gone; zero: it did not
	LastSuccessAt   time.Time // the last delivery; zero: there was none
	LastFailureAt   time.Time // the last failure; zero: there was none
	LastError       string    // why the last failed request failed
}

// Down reports whether the receiver fails as a whole: one request at a time is tried until one succeeds. It follows from FailuresInRow
// and is not stored, so that the two cannot disagree.
func (e Endpoint) Down() bool { return e.FailuresInRow >= failuresUntilDown }

// State is one word for the endpoint: ok, down, gone or idle (no node delivers).
func (e Endpoint) State() string {
	switch {
	case !e.ReceiverGoneAt.IsZero():
		return "gone"
	case !e.HasDeliverer:
		return "idle"
	case e.Down():
		return "down"
	}
	return "ok"
}

// secret is a signing key in the form of the column secrets. The newest has no end.
type secret struct {
	Text  string    `json:"secret"`
	Until time.Time `json:"until,omitzero"` // zero: it signs without an end
}

// signingSecrets lists the secrets that sign at a time, the newest first.
func signingSecrets(secrets []secret, now time.Time) (texts []string) {
	for _, one := range secrets {
		if one.Until.IsZero() || now.Before(one.Until) {
			texts = append(texts, one.Text)
		}
	}
	return texts
}

// endpoint is the row of an endpoint, by which a node delivers. It is read anew for each round, so a rotation of the secrets or a
// removal takes effect with the next round. alertsAfter, readTo and drainedTo are the columns since, read_to and full_to.
type endpoint struct {
	Name        string
	URL         string
	Filter      Filter
	secrets     []secret // the newest first, expired ones included
	alertsAfter uint64   // no change up to this version alerts
	readTo      uint64   // every change up to this version is delivered, filtered out or in a letter
	drainedTo   uint64   // readTo at the last time when nothing was left in the stream
	// leaseToken is the token of the lease under which the endpoint is delivered: a deliverer with another token stops.
	leaseToken string
	// failuresInRow counts the failed requests since the last success, over all rounds and nodes. The endpoint is down when it reaches
	// failuresUntilDown.
	failuresInRow int
	retryAt       time.Time // no round begins before this time; zero, or past: no pause
	receiverGone  bool      // the receiver answered 410, until somebody replays
}

// Letter records that an endpoint has yet to get a change of one user. It has no event: the event is made of the user's newest
// change when it is sent. The endpoint has the user's changes up to DeliveredUpTo; an open socket alerted the user of those up to
// AlertedUpTo.
type Letter struct {
	User          services.UserID
	UserKey       string // "" except in lists for operators
	DeliveredUpTo uint64
	AlertedUpTo   uint64
	LastTriedSeq  uint64    // the version of the change that was tried last
	Attempts      int       // attempts that failed; 0: the letter only waits until the user is away
	StartedAt     time.Time // when the first attempt failed, or since when the letter waits; a replay sets it anew
	DueAt         time.Time // when the letter is tried next
	DeadAt        time.Time // when the letter became dead; zero: it is not dead
	Status        int       // the HTTP status of the last attempt; 0: there was no answer
	Error         string    // why the last attempt failed
}

// endpointNamePattern matches the names of endpoints. A name is part of each webhook-id and of the command line, and needs no escaping in
// either.
var endpointNamePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// checkName returns INVALID for a name that no endpoint can have.
func checkName(name string) error {
	if !endpointNamePattern.MatchString(name) {
		return services.Errorf(services.Invalid, "name: %s is not a name of a webhook: up to 40 of a-z, 0-9 and - are allowed, not - first", services.Quote(name))
	}
	return nil
}

// filterNames lists the names that a filter can have in Sources. types are the types of site messages.
func filterNames(types []string) (names []string) {
	for _, source := range services.Sources {
		names = append(names, string(source))
	}
	var badges services.Badges
	for _, kind := range types {
		badges.SiteMessages.Types = append(badges.SiteMessages.Types, services.MessageTypeCount{Type: kind})
	}
	for part := range badges.Parts {
		if part.Name != "" {
			names = append(names, services.PartName(part.Source, part.Name))
		}
	}
	return names
}

// check returns INVALID for a filter with an unknown name, which would silently choose nothing.
func (f Filter) check(types []string) error {
	known := filterNames(types)
	for _, name := range f.Sources {
		// A category of the application is allowed even if it is not defined: the application may define it later.
		part, some := strings.CutPrefix(name, string(services.SourceNotifications)+":")
		if host := some && services.Category(part).HasHostCategoryForm(); !host && !slices.Contains(known, name) {
			return services.Errorf(services.Invalid, "sources: %s is not a source: %s are, and NOTIFICATIONS: with a category of the application", services.Quote(name), strings.Join(known, ", "))
		}
	}
	return nil
}

// chooses reports whether the filter chooses a part of a source.
func (f Filter) chooses(source services.Source, part string) bool {
	if len(f.Sources) == 0 {
		return true
	}
	return slices.Contains(f.Sources, string(source)) || slices.Contains(f.Sources, services.PartName(source, part))
}

// wants reports whether an endpoint that has all changes of the user up to base gets a change. It looks at all changes after
// base, and not only at the last one: the endpoint may have missed changes between the two.
func (f Filter) wants(change stream.Change, base uint64) bool {
	state := change.State
	// The endpoint has this change already, because a round was repeated, or the letter was delivered after the change was read.
	if change.Seq <= base {
		return false
	}
	if !state.Quiet && state.NewestAlertOf(f.chooses, base) != nil {
		return true // also if the numbers are the same: one item was read, and another one came
	}
	// With OnlyTotals events show only the total and quiet hours: without a change of these the event would be the same again.
	if f.OnlyTotals && state.Total.ChangedVersion <= base && state.QuietVersion <= base {
		return false
	}
	return len(f.Sources) == 0 || slices.ContainsFunc(state.Parts, func(p stream.Part) bool { return p.ChangedVersion > base && f.chooses(p.Source, p.Name) })
}

// String formats the filter in the words of the command line.
func (f Filter) String() string {
	var words []string
	if f.OnlyAway {
		words = append(words, "away")
	}
	if f.OnlyTotals {
		words = append(words, "totals")
	}
	if len(f.Sources) > 0 {
		words = append(words, "sources="+strings.Join(f.Sources, ","))
	}
	if words == nil {
		return "everything"
	}
	return strings.Join(words, " ")
}

// eventID returns the webhook-id of an event. It is the same for every attempt to deliver a version, by any node, so that receivers can
// drop duplicates.
func eventID(webhook string, seq uint64) string {
	return fmt.Sprintf("%s_%s", webhook, stream.VersionText(seq))
}
