package command

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/node"
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
		File: command.Import.File, BothDirections: command.Import.Both, ReplayFactor: command.Import.Factor, KeyPrefix: command.Import.Prefix, Quiet: command.Import.Quiet,
		Input: in, Out: out, OutIsTerminal: isTerminal(file),
	}
	// This process is no node: the random part of its clock keeps its IDs apart from those of nodes.
	ids := services.NewIDClock(services.SystemClock{}, uint16(rand.Uint32()))
	kind, _ := importKind(command.Import.What, command.Config) // checked with the words
	report, err := kind.Run(ctx, db, ids, opts)
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

// importKinds are the kinds of import that the command line has, with the settings that they take: words, help and calls are made of
// this list. Tests add a kind of their own.
var importKinds = node.Imports

// importKind finds a kind of import by its name.
func importKind(name string, settings node.Config) (kind importer.Kind, found bool) {
	kinds := importKinds(settings)
	at := slices.IndexFunc(kinds, func(kind importer.Kind) bool { return kind.Name == name })
	if at < 0 {
		return kind, false
	}
	return kinds[at], true
}

// importNames are the names of the kinds of import, in their order.
func importNames() (names []string) {
	for _, kind := range importKinds(node.Config{}) {
		names = append(names, kind.Name)
	}
	return names
}

// importSummary says what can be imported, for the list of commands: "Import follows from a CSV file, or site messages or posts from
// a JSON Lines file." Kinds of one format are together, in the order of the first of each format.
func importSummary() string {
	var formats []string
	objects := map[string][]string{}
	for _, kind := range importKinds(node.Config{}) {
		if objects[kind.FileFormat] == nil {
			formats = append(formats, kind.FileFormat)
		}
		objects[kind.FileFormat] = append(objects[kind.FileFormat], kind.Objects)
	}
	parts := services.Map(formats, func(format string) string { return joinWords(objects[format], "or") + " from a " + format + " file" })
	return "Import " + strings.Join(parts, ", or ") + "."
}

// joinWords joins words with commas, and the last two with a word such as "or".
func joinWords(words []string, last string) string {
	most := len(words) - 1
	if most < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:most], ", ") + " " + last + " " + words[most]
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
