package sql

import (
	"database/sql"
	"time"
)

// Values that may be NULL, from database/sql, which no other package imports.
type (
	NullInt64  = sql.NullInt64
	NullString = sql.NullString
)

// FromMicrosOrZero is FromMicros for a column in which 0 stands for the zero time.
func FromMicrosOrZero(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return FromMicros(us)
}

// MicrosOrZero is Micros for a column in which 0 stands for the zero time.
func MicrosOrZero(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return Micros(t)
}

// TextOrNull is the parameter of a statement that is a text, or NULL for nil.
func TextOrNull(text *string) any {
	if text == nil {
		return nil
	}
	return *text
}
