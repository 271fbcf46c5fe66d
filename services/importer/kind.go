package importer

import (
	"context"
	"errors"

	"tidings/services"
	"tidings/services/sql"
)

// Kind is a kind of import: what a feature registers for the files that it takes. Its Form.Name is the word after tidings import.
//
// An import has its own parser of lines, and not the inputs of the operations that mutations and ingest share, for four reasons. Its
// lines come from exports of other programs: they are CSV, or have the application's keys where an input has IDs. No actor asks, so no
// rights are checked and limits of users do not apply. The rows have past times and notify nobody, where an operation happens now.
// And thousands of rows are one transaction with the position in the file, in which the key of a row stands for an idempotency key.
// A replay of shows does run the commands of operations, because its events happen now.
type Kind struct {
	Form
	Objects    string   // what it imports, in the plural, for the help: "site messages"
	FileFormat string   // the format of its file, for the help: "CSV" or "JSON Lines"
	Examples   []string // command lines for the help
	Help       string   // what a file is and what becomes of it, in paragraphs that end with a line break

	// Import imports the file of the options.
	Import func(ctx context.Context, db *sql.DB, ids *services.IDClock, opts Options) (Report, error)
	// AfterImport queues the jobs with which nodes project what was imported, if Import does not queue them itself; nil: it does.
	// Facts are written here and projected by the nodes, which may run on other machines: an import opens no Redis.
	AfterImport func(ctx context.Context, db *sql.DB) error
}

// Run imports the file of the options, and then does what the import needs afterwards.
func (k Kind) Run(ctx context.Context, db *sql.DB, ids *services.IDClock, opts Options) (Report, error) {
	report, err := k.Import(ctx, db, ids, opts)
	// An import that continues an interrupted one may add nothing, but the interrupted one did not reach this line.
	if k.AfterImport != nil && (report.NewItems > 0 || report.ResumedAfter > 0) {
		// The jobs are queued also when ctx has ended: otherwise projections would lack the new rows until the audit finds that.
		err = errors.Join(err, k.AfterImport(context.WithoutCancel(ctx), db))
	}
	return report, err
}
