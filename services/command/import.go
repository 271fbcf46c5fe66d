package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/fanout"
	"tidings/services/importer"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/node"
	"tidings/services/nodecache"
	"tidings/services/people"
	"tidings/services/projector"
	"tidings/services/sql"
)

// runImport runs "tidings import". It reports everything to out and returns the exit code: 1 if it failed or lines were bad.
// An import of hours shows where it is, so its reports and its errors share one stream, in order.
func runImport(ctx context.Context, command Command, in io.Reader, out io.Writer) (exit int) {
	fail := func(err error) int {
		_, _ = fmt.Fprintf(out, "tidings: %v\n", err)
		return 1
	}
	// Only SQLite needs the folder. It may be missing, because an import can make the database.
	if err := os.MkdirAll(command.Config.Data, 0o700); err != nil && command.Config.Database == "" {
		return fail(fmt.Errorf("the data folder: %w", err))
	}
	db, err := sql.Open(ctx, sql.Config{URL: command.Config.DatabaseURL(), Clock: services.SystemClock{}})
	if err != nil {
		return fail(err)
	}
	// A failed close means that the last batch may not be on disk.
	defer func() {
		if err := db.Close(); err != nil {
			exit = fail(err)
		}
	}()
	// A second Ctrl-C ends the process at once, because a read of the standard input cannot be cancelled.
	defer context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt) })()
	// A progress bar is drawn only on a terminal; a file or a pipe gets lines.
	// Tests give a buffer, and get lines.
	file, _ := out.(*os.File)
	opts := importer.Options{
		File: command.Import.File, BothDirections: command.Import.Both, KeyPrefix: command.Import.Prefix, Quiet: command.Import.Quiet,
		Input: in, Out: out, OutIsTerminal: isTerminal(file),
	}
	report, err := importFile(ctx, db, command, opts)
	// The report is printed also after a failure, because the next run continues after the last committed line. It has the bad
	// lines too.
	if report.LastLine > 0 || err == nil {
		_, _ = fmt.Fprintln(out, report)
	}
	if err != nil {
		return fail(err)
	}
	if report.BadLines > 0 {
		return 1
	}
	return 0
}

// importFile runs the command's import of the file. It queues the jobs with which the nodes project the new facts. Facts are
// written here and projected by the nodes, which may run on other machines: this process opens no Redis.
func importFile(ctx context.Context, db *sql.DB, command Command, opts importer.Options) (report importer.Report, err error) {
	// This process is no node: the random part of its clock keeps its IDs apart from those of nodes.
	ids := services.NewIDClock(services.SystemClock{}, uint16(rand.Uint32()))
	// Posts and follows change feeds that exist already, and only jobs of the nodes can rebuild these.
	refill := func(err error) error {
		// Redis may still hold feeds that lack the imported data.
		// The thresholds are read from SQL, as nodes do, because an operator may have changed them. Without a row no node has
		// run yet, and the setting counts.
		thresholds, set, failed := people.ActivityThresholds(ctx, db)
		if failed != nil || !set {
			thresholds.DormantAfter = command.Config.ActiveFor
		}
		// Dormant users have no inbox to refill: it is built when they return.
		active := thresholds.DormantCutoff(services.SystemClock{}.Now())
		// The refills are queued also when ctx has ended: otherwise projections would lack the new rows until the audit finds that.
		_, queued := projector.QueueInboxRefills(context.WithoutCancel(ctx), db, active)
		return errors.Join(err, queued)
	}
	switch command.Name {
	case "import messages":
		return importer.Messages(ctx, db, db, ids, command.Config.SiteMessageTypes, opts)
	case "import posts":
		kinds, _ := node.ParseFeedKinds(command.Config.FeedKinds) // checked with the settings
		report, err = importer.Posts(ctx, db, ids, kinds, opts)
		// An import that continues an interrupted one may add nothing, but the interrupted one did not reach this line.
		if report.NewItems > 0 || report.ResumedAfter > 0 {
			err = refill(err)
		}
		return report, err
	case "import shows":
		if command.Import.Factor == 0 {
			return importer.Shows(ctx, db, ids, opts)
		}
		// Only facts and jobs are written here: the nodes on the same database project them.
		engine, log := jobs.New(jobs.Config{DB: db}), changelog.New(changelog.Config{Log: nodecache.SQL{DB: db}, Logger: slog.Default()})
		projections := projector.New(projector.Config{Jobs: engine, Store: db, Clock: services.SystemClock{}, IDs: ids})
		fan := fanout.New(fanout.Config{Jobs: engine, Projector: projections, Store: db, Clock: services.SystemClock{}, IDs: ids})
		service := live.New(live.Config{Store: db, Jobs: engine, Fanout: fan, Changelog: log, IDs: ids, Clock: services.SystemClock{}})
		return importer.ReplayShows(ctx, db, service, command.Import.Factor, opts)
	}
	// Only follows are left. They change how many followers an author has, and with it the mode of their posts.
	report, err = importer.Follows(ctx, db, ids, opts)
	if report.NewItems > 0 || report.ResumedAfter > 0 {
		err = errors.Join(refill(err), fanout.QueueUpdateAllModes(context.WithoutCancel(ctx), db))
	}
	return report, err
}

// isTerminal reports whether a progress bar can be drawn: on a character device. /dev/null is one too, where the bar does no harm. A nil
// file means a writer that is no file, as in tests.
func isTerminal(file *os.File) bool {
	if file == nil {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
