package badge

import (
	"context"
	"fmt"
	"strconv"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/projector"
	"tidings/services/sql"
)

// PolicyChange is a user's change of their display policy. Settings that it does not name stay as they are.
type PolicyChange struct {
	InTotal map[services.Source]bool // whether each source enters the total
	AsDot   map[services.Source]bool // whether each source shows a dot instead of its count
	Quiet   *QuietHours              // the quiet hours; nil leaves them as they are
}

// QuietHours are the hours in which no count is shown. From and To are "HH:MM" of the user's day; equal values end the quiet
// hours.
type QuietHours struct {
	From, To         string
	UTCOffsetMinutes int // minutes by which the user's clock is ahead of UTC, -720 to 840
}

// The least and the greatest UTC offset of a time zone, in minutes.
const (
	minUTCOffsetMinutes = -12 * 60
	maxUTCOffsetMinutes = 14 * 60
)

// Policy returns a user's display policy.
func (s *Service) Policy(ctx context.Context, user services.UserID) (services.DisplayPolicy, error) {
	return projector.Policy(ctx, s.db, user)
}

// ShowPart returns a part of a source's count, such as the count of one conversation, as a policy shows it. InTotal of the given
// part says whether the part is in the source's count. InTotal of the result says whether the part is in the total: both the part
// and the source must be in.
func (s *Service) ShowPart(policy services.DisplayPolicy, key services.Source, part services.Count) services.Count {
	quiet, _ := policy.Quiet(s.clock.Now())
	part.InTotal = part.InTotal && policy.InTotal(key)
	part.Display = display(s.settings.Caps, policy, quiet, key, part)
	return part
}

// SetPolicy returns the command that changes a user's display policy, for all devices. It returns INVALID for hours that are
// not a time of day, and for an offset that no time zone has.
func (s *Service) SetPolicy(user services.UserID, change PolicyChange) (*jobs.Command, error) {
	from, to := 0, 0
	// Equal times are valid: they end the quiet hours.
	if change.Quiet != nil {
		var err error
		if from, err = parseMinuteOfDay("quietHours.from", change.Quiet.From); err != nil {
			return nil, err
		}
		if to, err = parseMinuteOfDay("quietHours.to", change.Quiet.To); err != nil {
			return nil, err
		}
		if offset := change.Quiet.UTCOffsetMinutes; offset < minUTCOffsetMinutes || offset > maxUTCOffsetMinutes {
			return nil, services.Errorf(services.Invalid, "quietHours.offsetMinutes: %d to %d are allowed, got %d", minUTCOffsetMinutes, maxUTCOffsetMinutes, offset)
		}
	}
	// The change is applied to the stored policy, under the lock of its row: two devices may change different settings at once.
	apply := func(policy *services.DisplayPolicy) error {
		for source, inTotal := range change.InTotal {
			// The difference from the default is stored, so that a source that a later release adds has its own default.
			policy.InTotalInverted = withSource(policy.InTotalInverted, source, inTotal != source.InTotalByDefault())
		}
		for source, asDot := range change.AsDot {
			policy.AsDot = withSource(policy.AsDot, source, asDot)
		}
		if change.Quiet != nil {
			policy.QuietFromMinute, policy.QuietToMinute, policy.UTCOffsetMinutes = from, to, change.Quiet.UTCOffsetMinutes
		}
		return nil
	}
	return &jobs.Command{
		Name: "setDisplayPolicy", Actor: user,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			if _, err := projector.ChangePolicy(ctx, tx, user, apply); err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx, projector.DisplayPolicyJob(user))
		},
		AfterCommit: func(ctx context.Context) error { return s.projector.ProjectDisplayPolicy(ctx, user) },
	}, nil
}

// withSource sets whether a source is in a set of sources, which may be nil, and returns the set.
func withSource(sources map[services.Source]bool, source services.Source, has bool) map[services.Source]bool {
	if sources == nil {
		sources = map[services.Source]bool{}
	}
	sources[source] = has
	return sources
}

// parseMinuteOfDay reads "HH:MM" as a minute of the day. field names the argument in the error, which is INVALID.
func parseMinuteOfDay(field, text string) (int, error) {
	// Hour and minute have two digits each: "7:00" and "07:00" must not be two ways of saying one time.
	if len(text) == len("HH:MM") && text[2] == ':' {
		hour, wrongHour := strconv.ParseUint(text[:2], 10, 8)
		minute, wrongMinute := strconv.ParseUint(text[3:], 10, 8)
		if wrongHour == nil && wrongMinute == nil && hour < 24 && minute < 60 {
			return int(hour*60 + minute), nil
		}
	}
	return 0, services.Errorf(services.Invalid, "%s: %s is not a time of a day: expected HH:MM from 00:00 to 23:59", field, services.Quote(text))
}

// FormatMinuteOfDay prints a minute of a day as "HH:MM", the form that parseMinuteOfDay reads.
func FormatMinuteOfDay(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }
