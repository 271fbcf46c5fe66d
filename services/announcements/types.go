package announcements

import (
	"strings"
	"time"

	"tidings/services"
)

// Segments is a set of segments of users, one bit each. As a target, 0 is everyone. It is one word, so that a badge tests a target
// by one AND. A name keeps the bit that it once got (ensureSegments).
type Segments uint64

// reaches reports whether a target reaches a user with these segments.
func (target Segments) reaches(user Segments) bool { return target == 0 || target&user != 0 }

// The bounds of announcements and dots.
const (
	maxSegments            = 64       // segments of an installation
	maxTitleCharacters     = 255      // characters of a title
	maxContentBytes        = 64 << 10 // bytes of a content
	maxListedAnnouncements = 1000     // announcements in the list: when one more starts, the oldest is dropped
	maxDots                = 100      // dots of an installation
	maxNameCharacters      = 64       // characters of a dot's or a segment's name
)

// Announcement is an entry of the one list that all users share.
type Announcement struct {
	ID        services.AnnouncementID // an ID of the moment of its publication
	Title     string                  // 1 to 255 characters
	Content   string                  // up to 64 KB
	Segments  Segments                // the target; 0 is everyone
	CreatedAt time.Time
	UpdatedAt time.Time // the last edit, to the microsecond
	StartsAt  time.Time // by default the time of the publication
	EndsAt    time.Time // zero: never
	// Position is the position in the list, a stamp of the announcements' clock: 0 until the announcement starts, greater when it
	// is shown again.
	Position  uint64
	Withdrawn bool // taken out of everybody's list and count
}

// GlobalID is the announcement's global id.
func (a Announcement) GlobalID() string { return globalID(a.ID) }

// globalID is the global id of the announcement with an ID, such as "announcement:ID".
func globalID(id services.AnnouncementID) string {
	return services.GlobalID(services.AnnouncementType, id.String())
}

// ParseID parses the global id "announcement:ID". field names the argument in the error.
func ParseID(field, id string) (services.AnnouncementID, error) {
	value, err := services.ParseTypedID(field, id, services.AnnouncementType)
	return services.AnnouncementID(value), err
}

// isOverAt reports whether the announcement has ended at a moment: from EndsAt on.
func (a Announcement) isOverAt(moment time.Time) bool {
	return !a.EndsAt.IsZero() && !moment.Before(a.EndsAt)
}

// waitsToStart reports whether the announcement has no position yet and will get one. Its start job checks this, since it may run
// late or twice.
func (a Announcement) waitsToStart(now time.Time) bool {
	return a.Position == 0 && !a.Withdrawn && !a.isOverAt(now)
}

// Dot is a dot as the facts have it: when it was raised for everyone, and for segments. A raise for two segments is a raise for
// each.
type Dot struct {
	Name   string
	Raises []DotRaise // the last raise for each target
}

// DotRaise is the last time that a dot was raised for a target.
type DotRaise struct {
	Target Segments // its target; 0 is everyone
	Stamp  uint64   // a stamp of the announcements' clock
}

// litFor reports whether the dot is lit for a user with these segments who has seen it up to a stamp. At an equal stamp it is
// not lit.
func (d Dot) litFor(segments Segments, seen uint64) bool {
	for _, raise := range d.Raises {
		if raise.Stamp > seen && raise.Target.reaches(segments) {
			return true
		}
	}
	return false
}

// checkName checks the name of a dot or of a segment: 1 to 64 of a-z, 0-9, '_', '.', '-'. field names the argument in the
// error, which is INVALID.
func checkName(field, name string) error {
	// Bytes are characters here: all that are allowed are ASCII.
	if len(name) == 0 || len(name) > maxNameCharacters {
		return services.Errorf(services.Invalid, "%s: 1 to %d characters are allowed, got %d", field, maxNameCharacters, len(name))
	}
	if strings.ContainsFunc(name, isInvalidInName) {
		return services.Errorf(services.Invalid, "%s: %s: only a-z, 0-9, '_', '.' and '-' are allowed", field, services.Quote(name))
	}
	return nil
}

// isInvalidInName reports whether a character may not be in a name. Names are keys of documents' fields and of the log.
func isInvalidInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '.' && r != '-'
}
