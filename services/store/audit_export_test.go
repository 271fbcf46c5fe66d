package store

import "tidings/services/sql"

// ExportTexts are the texts of all that an export reads, in one.
func ExportTexts() (texts string) {
	for _, table := range exports {
		texts += table.Text(sql.SQLite) + "\n"
	}
	return texts
}
