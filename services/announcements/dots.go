package announcements

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// ensureTargetSegments returns the set of users that the named segments reach: everyone if none are named. A new segment gets a bit.
func ensureTargetSegments(ctx context.Context, tx *sql.Tx, segments []string) (Segments, error) {
	if segments == nil {
		return 0, nil
	}
	return ensureSegments(ctx, tx, segments)
}

// checkTargetSegments checks the names of a target. nil is everyone; an empty list would address no one, which is a mistake.
func checkTargetSegments(segments []string) error {
	if segments != nil && len(segments) == 0 {
		return services.Errorf(services.Invalid, "segments: name at least one, or leave it out for everyone")
	}
	return checkSegments(segments)
}

// checkSegments checks names of segments, before any of them gets a bit.
func checkSegments(segments []string) error {
	for _, name := range segments {
		if err := checkName("segments", name); err != nil {
			return err
		}
	}
	return nil
}

// RaiseDot is the command by which the host application lights a dot, for everyone or for segments. The first raise makes the
// dot. CONFLICT if there are too many dots or segments.
func (s *Service) RaiseDot(name string, segments []string) (*jobs.Command, error) {
	if err := checkName("name", name); err != nil {
		return nil, err
	}
	if err := checkTargetSegments(segments); err != nil {
		return nil, err
	}
	return s.sharedStateCommand("raiseDot", func(ctx context.Context, tx *sql.Tx, stamp uint64) (string, string, error) {
		// The segments that the application names for the first time get their bits.
		bits, err := ensureTargetSegments(ctx, tx, segments)
		if err != nil {
			return "", "", err
		}
		// A dot has no ID: its name is the key of the log entry.
		return "", name, raiseDot(ctx, tx, name, bits, eventStamp(tx, stamp))
	}), nil
}

// ClearDot is the command by which a user dismisses a dot in its present state; repeated, it changes nothing. NOT_FOUND if it was
// never raised.
func (s *Service) ClearDot(user services.UserID, name string) (*jobs.Command, error) {
	if err := checkName("name", name); err != nil {
		return nil, err
	}
	return s.ownStateCommand("clearDot", user, func(ctx context.Context, tx *sql.Tx) error {
		_, changed, err := clearDot(ctx, tx, user, name)
		return unchangedUnless(changed, err)
	}), nil
}

// SetSegments is the command by which the host application sets a user's segments, replacing all earlier ones; repeated, it
// changes nothing. CONFLICT if there are too many.
func (s *Service) SetSegments(user services.UserID, segments []string) (*jobs.Command, error) {
	if err := checkSegments(segments); err != nil {
		return nil, err
	}
	// The names are sorted and unique, so that new segments get their bits in an order that does not depend on the caller's.
	segments = slices.Compact(slices.Sorted(slices.Values(segments)))
	return s.ownStateCommand("setSegments", user, func(ctx context.Context, tx *sql.Tx) error {
		bits, err := ensureSegments(ctx, tx, segments)
		if err != nil {
			return err
		}
		_, changed, err := setSegments(ctx, tx, user, bits)
		return unchangedUnless(changed, err)
	}), nil
}

// unchangedUnless returns the error of a command: ErrUnchanged if the state was already as requested.
func unchangedUnless(changed bool, err error) error {
	if err == nil && !changed {
		return jobs.ErrUnchanged
	}
	return err
}
