package services

import (
	"io"
	"strconv"
	"time"
)

// Precision is how exact a count is. It is one byte, because the badges of each user with an open socket have a dozen counts.
type Precision uint8

// The precisions, from the best to the worst.
const (
	Exact   Precision = iota // the exact number
	AtLeast                  // the number or more: the source counts no further
	Stale                    // was right at AsOf, may have changed since
	Unknown                  // the value is not known: keep showing the last one
)

// precisionNames are the names of the precisions in the schema.
var precisionNames = [...]string{Exact: "EXACT", AtLeast: "AT_LEAST", Stale: "STALE", Unknown: "UNKNOWN"}

// String is the name of the precision in the schema.
func (p Precision) String() string { return precisionNames[p] }

// MarshalGQL writes the name of the precision as JSON.
func (p Precision) MarshalGQL(w io.Writer) { _, _ = io.WriteString(w, strconv.Quote(p.String())) }

// UnmarshalGQL reads the name of a precision. Precisions are only answered, so nothing calls it but gqlgen's generated code.
func (p *Precision) UnmarshalGQL(value any) error {
	for i, name := range precisionNames {
		if value == name {
			*p = Precision(i)
			return nil
		}
	}
	return Errorf(Invalid, "%v is not a precision", value)
}

// Instant is a moment in nanoseconds since 1970, and 0 is none. It takes a third of the memory of a time.Time.
type Instant int64

// InstantOf returns the Instant of a time. The zero time is none.
func InstantOf(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.UnixNano())
}

// Time returns the time of the moment, in UTC; the zero time for none.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i)).UTC()
}

// Count is one number of a badge.
type Count struct {
	Value     int     // never negative
	Display   string  // the text that clients show
	RightAt   Instant // with STALE: when the count was right
	InTotal   bool    // whether the count enters the total
	Precision Precision
	Mode      CategoryMode // of a category of notifications: how it counts for the user
}

// AsOf is when a STALE count was right, and zero for other counts.
func (c Count) AsOf() time.Time { return c.RightAt.Time() }

// Known is the value, nil if it is UNKNOWN.
func (c Count) Known() *int {
	if c.Precision == Unknown {
		return nil
	}
	return &c.Value
}

// DisplayCap is the largest number shown in full by default: one more is "99+".
const DisplayCap = 99

// DisplayDot is shown for a count that the user wants as a dot.
const DisplayDot = "•"

// NewCount makes a count that enters the total.
func NewCount(value int, precision Precision, asOf time.Time) Count {
	return Count{Value: value, Display: Display(value, DisplayCap), InTotal: true, Precision: precision, RightAt: InstantOf(asOf)}
}

// Display prints a number in full up to a cap, and the cap with a "+" beyond it.
func Display(value, limit int) string {
	if value > limit {
		return strconv.Itoa(limit) + "+"
	}
	return strconv.Itoa(value)
}

// Sum adds the counts that enter a total. A part that is not exact makes the sum inexact too.
func Sum(parts ...Count) Count {
	total := Count{InTotal: true, Precision: Exact}
	for i := range parts {
		total.Add(parts[i])
	}
	total.Display = Display(total.Value, DisplayCap)
	return total
}

// Add adds a part to a total, if the part enters it. The total's own display fields stay unchanged.
func (c *Count) Add(part Count) {
	if !part.InTotal {
		return
	}
	c.Value += part.Value
	c.Precision = max(c.Precision, part.Precision)
	// The sum is as old as its oldest part.
	if part.RightAt != 0 && (c.RightAt == 0 || part.RightAt < c.RightAt) {
		c.RightAt = part.RightAt
	}
}

// BadgesVersion prints a version from its document half (own) and its shared half, so that texts compare like the pairs. own rises with
// each change of the user's document and is in microseconds; shared rises with each change of state that the document shares with others.
// Both have at most 16 digits.
func BadgesVersion(own, shared uint64) string {
	text := make([]byte, 0, 2*versionDigits+1)
	text = appendPadded(text, own)
	text = append(text, '.')
	return string(appendPadded(text, shared))
}

// versionDigits is enough for microseconds until the year 2286, and for staleSharedHalfBase.
const versionDigits = 16

// staleSharedHalfBase is the least shared half of the versions of badges that were made without the user's document (StaleVersion). The
// shared half of no other version comes near it.
const staleSharedHalfBase = 9_000_000_000_000_000

// StaleVersion prints the version of badges that were made without the user's document. It is newer than every other version with the
// same document half (own), and older than the document's next version. Among such versions with one document half, the version with the
// later time is newer; the zero time is the earliest.
func StaleVersion(own uint64, at time.Time) string {
	shared := uint64(staleSharedHalfBase)
	if !at.IsZero() {
		// The time is in units of 10 us, so that the half keeps its 16 digits and its leading 9. Callers keep two different times at
		// least 10 us apart.
		shared += uint64(at.UnixMicro()) / 10
	}
	return BadgesVersion(own, shared)
}

// StaleDocumentHalf is the document half of a version that StaleVersion printed; stale is false for every other version.
func StaleDocumentHalf(version string) (own uint64, stale bool) {
	// The first digit of the shared half tells: all other sums stay below staleSharedHalfBase.
	if len(version) != 2*versionDigits+1 || version[versionDigits+1] != '9' {
		return 0, false
	}
	return DocumentHalf(version), true
}

// DocumentHalf is the document half of a version.
func DocumentHalf(version string) uint64 {
	return parseDigits(version[:min(versionDigits, len(version))])
}

// SharedHalf is the shared half of a version.
func SharedHalf(version string) uint64 {
	return parseDigits(version[min(versionDigits+1, len(version)):])
}

// parseDigits reads digits. The callers have checked the form, or made the text.
func parseDigits(text string) (number uint64) {
	for i := range len(text) {
		number = number*10 + uint64(text[i]-'0')
	}
	return number
}

// appendPadded appends a number with leading zeros, to 16 digits. It does not use fmt, because a version is printed for each
// rendering.
func appendPadded(text []byte, number uint64) []byte {
	for power := uint64(1_000_000_000_000_000); power > max(number, 1); power /= 10 {
		text = append(text, '0')
	}
	return strconv.AppendUint(text, number, 10)
}

// CheckVersion reports whether a text has the form of a version.
func CheckVersion(field, text string) error {
	fits := len(text) == 2*versionDigits+1 && text[versionDigits] == '.'
	for i := 0; fits && i < len(text); i++ {
		fits = i == versionDigits || text[i] >= '0' && text[i] <= '9'
	}
	if !fits {
		return Errorf(Invalid, "%s: %s is not a version of badges", field, Quote(text))
	}
	return nil
}

// LiveCount is how many live shows of followed hosts started after the viewer last looked at the board, as the node knows it when it
// renders the badges.
type LiveCount struct {
	NewShows       int    // the number of these shows
	VersionSum     uint64 // the sum of the hosts' versions: it rises whenever the set of live shows changes
	CacheNotLoaded bool   // the node cache has no shows yet
}
