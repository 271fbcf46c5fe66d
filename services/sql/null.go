package sql

import "database/sql"

// Values that may be NULL, of database/sql: nobody else imports it.
type (
	NullInt64  = sql.NullInt64
	NullString = sql.NullString
)
