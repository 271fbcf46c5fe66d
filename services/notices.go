package services

import (
	"strings"
	"time"
)

// SegmentBits is a set of segments of users, one bit each. As a target, 0 is everyone.
type SegmentBits uint64

// Reaches reports whether a target reaches a user with these segments.
func (target SegmentBits) Reaches(user SegmentBits) bool { return target == 0 || target&user != 0 }

// The bounds of announcements and dots.
const (
	MaxSegments            = 64       // segments of an installation
	MaxAnnouncementTitle   = 255      // characters
	MaxAnnouncementContent = 64 << 10 // bytes
	MaxAnnouncements       = 1000     // in the list: when one more starts, the oldest is dropped
	MaxDots                = 100      // dots of an installation
	maxNoticeName          = 64
)

// Announcement is an entry of the one list that all users share.
type Announcement struct {
	ID        PostID // of the moment of its publication
	Title     string // 1 to 255 characters
	Content   string // up to 64 KB
	Segments  SegmentBits
	CreatedAt time.Time
	UpdatedAt time.Time // the last change of its texts, to the microsecond
	StartsAt  time.Time
	EndsAt    time.Time // zero: never
	// Position is its position in the list, a stamp of the announcements' clock: 0 until it starts, greater when it is shown
	// again.
	Position  uint64
	Withdrawn bool
}

// GlobalID is the announcement's global id.
func (a Announcement) GlobalID() string { return GlobalID(AnnouncementType, a.ID.String()) }

// OverAt reports whether the announcement has ended at a moment: from EndsAt on.
func (a Announcement) OverAt(moment time.Time) bool {
	return !a.EndsAt.IsZero() && !moment.Before(a.EndsAt)
}

// RaisedDot is a dot as the facts have it: when it was raised for everyone, and for segments.
type RaisedDot struct {
	Name   string
	Raises []DotRaise // the last for each target
}

// DotRaise is the last time that a dot was raised for a target.
type DotRaise struct {
	Target SegmentBits
	At     uint64 // a stamp of the announcements' clock
}

// LitFor reports whether the dot is lit for a user with these segments who has seen it up to a stamp. At an equal stamp it is
// not lit.
func (d RaisedDot) LitFor(segments SegmentBits, seen uint64) bool {
	for _, raise := range d.Raises {
		if raise.At > seen && raise.Target.Reaches(segments) {
			return true
		}
	}
	return false
}

// CheckNoticeName reports whether the name of a dot or of a segment is valid: 1 to 64 of a-z, 0-9, '_', '.', '-'. field names
// the argument in the error.
func CheckNoticeName(field, name string) error {
	if len(name) == 0 || len(name) > maxNoticeName {
		return Errorf(Invalid, "%s: 1 to %d characters are allowed, got %d", field, maxNoticeName, len(name))
	}
	if strings.ContainsFunc(name, notOfName) {
		return Errorf(Invalid, "%s: %s: only a-z, 0-9, '_', '.' and '-' are allowed", field, Quote(name))
	}
	return nil
}

func notOfName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '.' && r != '-'
}

// ParseAnnouncementID reads "announcement:KEY". field names the argument in the error.
func ParseAnnouncementID(field, id string) (PostID, error) {
	return ParseTypedID(field, id, AnnouncementType)
}
