package importer

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// errToy is the error of a toy import that fails.
var errToy = errors.New("the toy is broken")

// What an import needs afterwards is done if there are new items, or if the run continues an interrupted one, which may have had some;
// also after an error and after the end of the context. An error of it ends the import with an error.
func TestTheStepAfterAnImportRunsForNewItems(t *testing.T) {
	for name, c := range map[string]struct {
		report      Report
		err, after  error
		runs, fails bool
	}{
		"new items":       {Report{NewItems: 1}, nil, nil, true, false},
		"nothing new":     {Report{SkippedRows: 3}, nil, nil, false, false},
		"resumed":         {Report{ResumedAfter: 7}, nil, nil, true, false},
		"broken off":      {Report{NewItems: 1}, errToy, nil, true, true},
		"it fails itself": {Report{NewItems: 1}, nil, errToy, true, true},
	} {
		ran := false
		kind := Kind{
			Import: func(context.Context, *sql.DB, *services.IDClock, Options) (Report, error) { return c.report, c.err },
			AfterImport: func(ctx context.Context, _ *sql.DB) error {
				ran = true
				return errors.Join(ctx.Err(), c.after)
			},
		}
		ctx, end := context.WithCancel(t.Context())
		end()
		if report, err := kind.Run(ctx, nil, nil, Options{}); report != c.report || errors.Is(err, errToy) != c.fails || ran != c.runs || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %+v, %v, ran %t", name, report, err, ran)
		}
	}
}

// toyImport is an import whose lines are kept in stored. Its batches have two lines, and its commit number breakAt fails.
type toyImport struct {
	*Run
	batch   []string
	stored  *[]string
	commits int
	breakAt int
}

// AddLine adds a line to the batch; the line bad is put aside.
func (im *toyImport) AddLine(_ context.Context, line []byte) error {
	if string(line) == "bad" {
		return im.RefuseLine(line, errUnusable)
	}
	im.batch = append(im.batch, string(line))
	im.FoundGoodLine()
	return nil
}

// BatchFull reports whether the batch has two lines.
func (im *toyImport) BatchFull() bool { return im.Full(len(im.batch), 0) }

// Commit stores the batch with the position.
func (im *toyImport) Commit(ctx context.Context, line int64) error {
	if err := im.FlushBadLines(); err != nil {
		return err
	}
	if im.commits++; im.commits == im.breakAt {
		return im.WithPosition(errToy)
	}
	if err := im.DB.Write(ctx, func(tx *sql.Tx) error { return im.SavePosition(ctx, tx, line) }); err != nil {
		return err
	}
	*im.stored = append(*im.stored, im.batch...)
	im.Committed(Report{GoodRows: int64(len(im.batch)), NewItems: int64(len(im.batch))})
	im.batch = nil
	return nil
}

// The engine imports each line of a file once, knows nothing of what the lines are, and goes on after the last commit.
func TestAnImportOfAnyKindResumes(t *testing.T) {
	db := sqltest.Open(t, sql.Config{URL: sqltest.SQLite(t)})
	path := writeFile(t, "a\nb\nbad\nc\nd\ne\n")
	var stored []string
	run := func(breakAt int) (Report, error) {
		opened, err := Open(db, Options{File: path, BatchSize: 2, Out: io.Discard}, Form{Name: "toys", MaxBytesPerLine: 10})
		if err != nil {
			t.Fatal(err)
		}
		report, err := opened.ImportLines(t.Context(), &toyImport{Run: opened, stored: &stored, breakAt: breakAt})
		report.Took = 0
		return report, err
	}
	if report, err := run(2); !errors.Is(err, errToy) || report.NewItems != 2 {
		t.Errorf("the first run: %+v, %v", report, err)
	}
	want := Report{Kind: "toys", ResumedAfter: 2, LastLine: 6, GoodRows: 3, NewItems: 3, BadLines: 1, BadFile: path + ".bad"}
	if report, err := run(0); err != nil || report != want || strings.Join(stored, "") != "abcde" {
		t.Errorf("the second run: %+v, %v: %v", report, err, stored)
	}
}
