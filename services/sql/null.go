package sql

import "database/sql"

// Values that may be NULL, from database/sql, which no other package imports.
type (
	NullInt64  = sql.NullInt64
	NullString = sql.NullString
)
