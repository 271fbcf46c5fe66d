package badge

import (
	"context"
	"iter"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// maxUsersPerCount is the largest number of users that are counted together in SQL: by the same statements, in one slot, under one
// time limit for each source. Without a bound, one user with very much to count could use up the time of a hundred others, whose
// counts would be UNKNOWN, and a large group would hold its slot for long. Larger groups would save little: for a hundred users,
// 25 at a time, each statement runs only four times, and the four groups run concurrently.
const maxUsersPerCount = 25

// countingGroups divides the indexes of users into groups that are counted together. The groups have nearly the same size, so that
// groups that run concurrently end at about the same time.
func countingGroups(indexes []int) iter.Seq[[]int] {
	groups := max(1, (len(indexes)+maxUsersPerCount-1)/maxUsersPerCount)
	return slices.Chunk(indexes, max(1, (len(indexes)+groups-1)/groups))
}

// elementsAt returns the elements at some indexes of a list.
func elementsAt[T any](list []T, indexes []int) []T {
	picked := make([]T, len(indexes))
	for i, index := range indexes {
		picked[i] = list[index]
	}
	return picked
}

// ReadFacts counts a user's badges in SQL, where a few counts run at a time. It is used when Redis does not answer, or does not have
// the reader's own last command yet.
func (s *Service) ReadFacts(ctx context.Context, user services.UserID) (*services.Badges, error) {
	badges, errs := s.readFacts(ctx, []services.UserID{user})
	return badges[0], errs[0]
}

// readFacts counts the badges of a group of users in SQL, in their order and in one slot. A source that is not counted in time keeps its
// last value or is UNKNOWN. errs[i] is set only if the caller's context ended.
func (s *Service) readFacts(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error) {
	badges, errs = make([]*services.Badges, len(users)), make([]error, len(users))
	earlier := make([]cachedBadges, len(users)) // Badges is nil for a user who is not remembered
	due, remembered := make([]int, len(users)), false
	for i, user := range users {
		earlier[i], _ = s.lastShown.get(user)
		due[i], remembered = i, remembered || earlier[i].Badges != nil
	}
	admitted, err := s.acquireSQLCountSlot(ctx, remembered)
	if err == nil && !admitted {
		// All slots were taken for as long as a count may last. For users who are remembered, old badges now are better than
		// new ones after a long wait. The others have no badges yet and wait on.
		due = slices.DeleteFunc(due, func(i int) bool {
			if earlier[i].Badges != nil {
				badges[i] = s.staleBadges(ctx, users[i], earlier[i])
			}
			return badges[i] != nil
		})
		if len(due) == 0 {
			return badges, errs
		}
		_, err = s.acquireSQLCountSlot(ctx, false)
	}
	if err == nil {
		defer func() { <-s.sqlCountSlots }()
		err = s.countBadges(ctx, due, users, earlier, badges)
	}
	for _, i := range due {
		errs[i] = err // only if the caller's context ended
	}
	return badges, errs
}

// countBadges counts the badges of the users at some indexes in SQL, and stores them in badges. The caller holds a slot.
func (s *Service) countBadges(ctx context.Context, indexes []int, users []services.UserID, earlier []cachedBadges, badges []*services.Badges) error {
	at := s.moment(ctx)
	documents, failed, err := s.documentsFromFacts(ctx, elementsAt(users, indexes), at.Today())
	if err != nil {
		if ctx.Err() != nil {
			return services.Wrapf(services.Unavailable, err, "badges: no answer in time")
		}
		s.logMissing(failed, err)
	}
	for k, i := range indexes {
		switch {
		// Some sources were counted. The others are filled in from what was shown last.
		case len(failed[k]) < len(s.sources):
			badges[i] = s.renderFallback(ctx, users[i], documents[k], at, failed[k], earlier[i])
		// Nothing could be counted: old badges, marked as STALE, are better than none.
		case earlier[i].Badges != nil:
			badges[i] = s.staleBadges(ctx, users[i], earlier[i])
		default:
			badges[i] = unknownBadges(s.sources)
		}
	}
	return nil
}

// acquireSQLCountSlot takes one of the slots for counting in SQL; the caller gives it back. A user whose last badges are remembered
// waits no longer than a count may take: after that admitted is false.
func (s *Service) acquireSQLCountSlot(ctx context.Context, remembered bool) (admitted bool, err error) {
	var enough <-chan time.Time
	if remembered {
		timer := time.NewTimer(s.sqlTimeout)
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case s.sqlCountSlots <- struct{}{}:
		return true, nil
	case <-enough:
		return false, nil
	case <-ctx.Done():
		return false, services.Wrapf(services.Unavailable, ctx.Err(), "badges: no answer in time")
	}
}

// renderFallback renders counts from SQL. Their version follows the last one that this node showed to the user. If this node has shown
// none, the user's half of the version is a time by this node's clock, whereas a document's is a time by the clock of Redis.
func (s *Service) renderFallback(ctx context.Context, user services.UserID, document rdb.Document, at source.Moment, failed []Source, earlier cachedBadges) *services.Badges {
	document.Version = uint64(at.MonotonicNow.UnixMicro())
	// This is the last value of the user's half that this node has shown. A value newer than the document's would make
	// clients drop the document's next change.
	if earlier.Badges != nil {
		document.Version = services.DocumentHalf(earlier.Badges.Version)
	}
	s.rememberFallbackVersion(ctx, user, document.Version)
	v := s.rendering(document, at)
	badges := v.render()
	// The shared half of this version is a time: later answers are newer, and the next version of the document is newer than all of
	// them.
	badges.Version = services.StaleVersion(document.Version, s.fallbacks.nextVersionTime(at.MonotonicNow))
	now := services.InstantOf(at.Now)
	// The counts are right at this moment, but may not stay right: no hint will report a change.
	for count := range s.sources.counts(badges) {
		if count.Precision != services.Unknown {
			count.Precision, count.RightAt = services.Stale, now
		}
	}
	// The failed sources are filled in after the precision was set, so that their counts keep their own age.
	for _, source := range failed {
		earlier.fillIn(v, badges, source)
	}
	// The totals are summed again, with the parts that were filled in.
	v.writeTotals(badges)
	s.lastShown.keep(user, s.asCachedBadges(v, badges))
	return badges
}

// staleBadges returns the remembered badges as STALE.
func (s *Service) staleBadges(ctx context.Context, user services.UserID, earlier cachedBadges) *services.Badges {
	badges := earlier.staleCopy()
	// An exact version must not be sent with two contents, so it is replaced by the lowest STALE version with that user's half.
	if _, marked := services.StaleDocumentHalf(badges.Version); !marked {
		badges.Version = services.StaleVersion(services.DocumentHalf(badges.Version), time.Time{})
	}
	s.rememberFallbackVersion(ctx, user, services.DocumentHalf(badges.Version))
	return badges
}

// documentsFromFacts makes the documents of users from the facts alone. It returns for each user the sources that could not be
// read, and the last error. A source that hangs does not delay the others: each has its own time limit, and all together have three
// times that.
func (s *Service) documentsFromFacts(ctx context.Context, users []services.UserID, today int64) (documents []rdb.Document, failed [][]Source, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*s.sqlTimeout)
	defer cancel()
	documents, failed = make([]rdb.Document, len(users)), make([][]Source, len(users))
	for _, source := range s.sources {
		missing, failure := s.countSource(ctx, source, users, today, documents)
		for _, i := range missing {
			failed[i] = append(failed[i], source)
			source.Empty(&documents[i])
		}
		if failure != nil {
			err = failure
		}
	}
	return documents, failed, err
}

// countSource counts one source, within the time limit of one source. It returns the indexes of the users that it could not count,
// and the last error.
func (s *Service) countSource(ctx context.Context, source Source, users []services.UserID, today int64, documents []rdb.Document) (missing []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.sqlTimeout)
	defer cancel()
	// The source writes into copies, so that a source that fails leaves nothing half written.
	next := slices.Clone(documents)
	if err = source.Facts(ctx, users, today, next); err == nil {
		copy(documents, next)
		return nil, nil
	}
	// One user's row that cannot be read must not hide the counts of the group: in the time that is left, each user is
	// counted alone. If SQL itself is away, that would not help.
	alone := len(users) > 1 && ctx.Err() == nil && !services.IsUnavailable(err)
	for i := range users {
		if alone {
			one := slices.Clone(documents[i : i+1])
			failure := source.Facts(ctx, users[i:i+1], today, one)
			if failure == nil {
				documents[i] = one[0]
				continue
			}
			err = failure
		}
		missing = append(missing, i)
	}
	// A second attempt may have counted them all.
	if len(missing) == 0 {
		err = nil
	}
	return missing, err
}

// logMissing logs the sources that could not be counted for some users of a group.
func (s *Service) logMissing(failed [][]Source, err error) {
	users := map[string]int{}
	for _, sources := range failed {
		for _, source := range sources {
			users[source.Name()]++
		}
	}
	for name, count := range users {
		s.log.Warn("badges are incomplete: neither Redis nor SQL answers", "source", name, "users", count, "error", err)
	}
}
