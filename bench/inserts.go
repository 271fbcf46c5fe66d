package main

import (
	"context"
	database "database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services/sql"
)

// The floor of ingest is bare INSERTs: they write the rows that a load, which is one round of events, has left in the tables into new
// tables of the same schema. Jobs that are done have left no rows. Nothing is read, checked or answered, and Redis has no part in it.

// bareInsertsLabel names the floor of ingest in the results.
const bareInsertsLabel = "the same rows by bare INSERTs"

// writtenRows are rows of one table of the database.
type writtenRows struct {
	tableName string
	columns   []string
	rows      [][]any
}

// insertBaseline measures the floor of a load, which is one round of events for ingest: in each round it inserts the rows of one load
// into an empty database.
type insertBaseline struct {
	driver               string       // the SQL driver: "sqlite" or "pgx"
	loadDatabase         *database.DB // the database that the load writes to
	parallelTransactions int          // transactions at a time
	// newEmptyDatabase makes an empty database. url is its address for Tidings, and name its address for the driver.
	newEmptyDatabase func(ctx context.Context) (url, name string, err error)

	rowsBeforeLoad map[string]bool // the rows from before the load, by rowKey
	tables         []writtenRows   // the rows that the load has written; nil until the first load has ended
	eventCount     int             // how many events the load had
	results        series          // the rate of each round
}

// openInsertBaseline opens the database that a load is going to write to. senders is the number of transactions at a time, and
// newEmptyDatabase makes an empty database for each round.
func openInsertBaseline(driver, name string, senders int, newEmptyDatabase func(ctx context.Context) (url, name string, err error)) (*insertBaseline, error) {
	source, err := openBareCommitDatabase(driver, name)
	return &insertBaseline{driver: driver, loadDatabase: source, parallelTransactions: senders, newEmptyDatabase: newEmptyDatabase}, err
}

// sqliteDatabaseFactory returns a function newEmptyDatabase for an insertBaseline: each call removes the SQLite database of the
// last call, and returns the address of a new one in the same folder.
func sqliteDatabaseFactory(folder string) func(context.Context) (url, name string, err error) {
	return func(context.Context) (url, name string, err error) {
		name = filepath.Join(folder, "twin.db")
		return "sqlite:" + name, name, removeDatabase(name)
	}
}

// recordRowsBeforeLoad reads which rows are there before the load. It does nothing after the first load: the rows of that load
// serve for all rounds.
func (f *insertBaseline) recordRowsBeforeLoad(ctx context.Context) error {
	if f.tables != nil {
		return nil
	}
	tables, err := readTables(ctx, f.driver, f.loadDatabase)
	if err != nil {
		return err
	}
	f.rowsBeforeLoad = map[string]bool{}
	for _, table := range tables {
		for _, row := range table.rows {
			f.rowsBeforeLoad[rowKey(table.tableName, row)] = true
		}
	}
	return nil
}

// collectWrittenRows reads the rows that the first load has written, and does nothing after a later one. events is how many events the
// load had.
func (f *insertBaseline) collectWrittenRows(ctx context.Context, events int) error {
	if f.tables != nil {
		return nil
	}
	tables, err := readTables(ctx, f.driver, f.loadDatabase)
	if err != nil {
		return err
	}
	for _, table := range tables {
		table.rows = slices.DeleteFunc(table.rows, func(row []any) bool { return f.rowsBeforeLoad[rowKey(table.tableName, row)] })
		if len(table.rows) > 0 {
			f.tables = append(f.tables, table)
		}
	}
	if len(f.tables) == 0 {
		return fmt.Errorf("%d events have left no row", events)
	}
	f.rowsBeforeLoad, f.eventCount = nil, events
	return nil
}

// rowKey returns a text that differs for different rows of all tables.
func rowKey(table string, row []any) string { return table + fmt.Sprintf("%q", row) }

// measureRound inserts the rows into a new database. It makes as many transactions as the events of the load had batches.
func (f *insertBaseline) measureRound(ctx context.Context) (err error) {
	url, name, err := f.newEmptyDatabase(ctx)
	if err != nil {
		return err
	}
	schema, err := sql.Open(ctx, sql.Config{URL: url})
	if err != nil {
		return err
	}
	if err := schema.Close(); err != nil {
		return err
	}
	twin, err := openBareCommitDatabase(f.driver, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, twin.Close()) }()
	batches := (f.eventCount + ingestBatchSize - 1) / ingestBatchSize
	start := time.Now()
	var group errgroup.Group
	group.SetLimit(f.parallelTransactions)
	for batch := range batches {
		group.Go(func() error { return f.insertBatch(ctx, twin, batch, batches) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	f.results = append(f.results, newRateSample(f.eventCount, time.Since(start)))
	return nil
}

// insertBatch inserts a share of the rows of every table in one transaction. batches is the number of shares, and batch the index of
// this one.
func (f *insertBaseline) insertBatch(ctx context.Context, twin *database.DB, batch, batches int) error {
	tx, err := twin.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, table := range f.tables {
		rows := table.rows[len(table.rows)*batch/batches : len(table.rows)*(batch+1)/batches]
		if err := f.insertInto(ctx, tx, table, rows); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", table.tableName, err), tx.Rollback())
		}
	}
	return tx.Commit()
}

// insertInto inserts rows into a table in the fastest way of the engine. SQLite runs in the same process and takes one row at a
// time by a prepared statement. PostgreSQL takes many rows in a round trip.
func (f *insertBaseline) insertInto(ctx context.Context, tx *database.Tx, table writtenRows, rows [][]any) error {
	head := "INSERT INTO " + table.tableName + " (" + strings.Join(table.columns, ", ") + ") VALUES "
	const tail = " ON CONFLICT DO NOTHING" // the schema has some rows from the beginning
	if f.driver != "sqlite" {
		for part := range slices.Chunk(rows, rawRowsPerInsert) {
			if err := insertRows(ctx, tx, head, tail, part); err != nil {
				return err
			}
		}
		return nil
	}
	statement, err := tx.PrepareContext(ctx, head+placeholders(1, len(table.columns))+tail)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := statement.ExecContext(ctx, row...); err != nil {
			return errors.Join(err, statement.Close())
		}
	}
	return statement.Close()
}

// insertRows inserts rows by one statement: head, the placeholders of the rows, and tail.
func insertRows(ctx context.Context, tx *database.Tx, head, tail string, rows [][]any) error {
	_, err := tx.ExecContext(ctx, head+placeholders(len(rows), len(rows[0]))+tail, slices.Concat(rows...)...)
	return err
}

// placeholders returns the placeholders for a number of rows with a number of columns, such as "($1,$2),($3,$4)".
func placeholders(rows, columns int) string {
	var text strings.Builder
	for i := range rows * columns {
		switch {
		case i == 0:
			text.WriteString("(")
		case i%columns == 0:
			text.WriteString("),(")
		default:
			text.WriteString(",")
		}
		text.WriteString("$" + strconv.Itoa(i+1))
	}
	return text.String() + ")"
}

// compareLoad returns the line of the report that compares the rates of a load with those of the bare INSERTs.
func (f *insertBaseline) compareLoad(what string, ours series) resultLine {
	return resultLine{measurement: what, reference: bareInsertsLabel, ourFigure: formatRateAndCPU(ours), referenceFigure: formatRateAndCPU(f.results), value: ratio(ours.medianRate(), f.results.medianRate()), unit: "x"}
}

// readTables reads all rows of all tables.
func readTables(ctx context.Context, driver string, db *database.DB) (tables []writtenRows, err error) {
	query := `SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1`
	if driver == "sqlite" {
		query = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1`
	}
	_, names, err := readRows(ctx, db, query)
	for _, name := range names {
		table := writtenRows{tableName: fmt.Sprint(name[0])}
		if table.columns, table.rows, err = readRows(ctx, db, "SELECT * FROM "+table.tableName); err != nil {
			return nil, fmt.Errorf("%s: %w", table.tableName, err)
		}
		tables = append(tables, table)
	}
	return tables, err
}

// readRows returns the columns and the rows of a query.
func readRows(ctx context.Context, db *database.DB, query string) (columns []string, all [][]any, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	if columns, err = rows.Columns(); err != nil {
		return nil, nil, err
	}
	for rows.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, nil, err
		}
		all = append(all, row)
	}
	return columns, all, rows.Err()
}
