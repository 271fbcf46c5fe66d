package services

import (
	"strconv"
	"time"
)

// Precision is how exact a count is.
type Precision string

// The precisions, from the best to the worst.
const (
	Exact   Precision = "EXACT"    // the exact number
	AtLeast Precision = "AT_LEAST" // the number or more: the source counts no further
	Stale   Precision = "STALE"    // was right at AsOf, may have changed since
	Unknown Precision = "UNKNOWN"  // the value is not known: keep showing the last one
)

// worse reports whether p is a weaker statement than other.
func (p Precision) worse(other Precision) bool { return p.rank() > other.rank() }

// rank orders the precisions from the best, 0, to the worst.
func (p Precision) rank() int {
	switch p {
	case AtLeast:
		return 1
	case Stale:
		return 2
	case Unknown:
		return 3
	default:
		return 0
	}
}

// Count is one number of a badge.
type Count struct {
	Value     int          // never negative
	Display   string       // the text that clients show
	InTotal   bool         // whether the count enters the total
	Mode      CategoryMode // of a category of notifications: how it counts for the user
	Precision Precision
	AsOf      time.Time // with STALE: when it was right
}

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
	return Count{Value: value, Display: Display(value, DisplayCap), InTotal: true, Precision: precision, AsOf: asOf}
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
	if part.Precision.worse(c.Precision) {
		c.Precision = part.Precision
	}
	// The sum is as old as its oldest part.
	if !part.AsOf.IsZero() && (c.AsOf.IsZero() || part.AsOf.Before(c.AsOf)) {
		c.AsOf = part.AsOf
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
