package sql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// answer is PostgreSQL's answer to a statement: its rows, the number of changed rows, or its error.
type answer struct {
	rows    [][]any
	changed int64
	err     error
}

// step is a statement that a function ran, with its answer if it is known.
type step struct {
	name, text    string
	args          []any
	answer        *answer // nil: not known yet
	fromLastPass  bool    // the answer is that of the last pass, and all before it is as it was then; false: only prefetched, or not known
	hasFinalError bool    // the answer is an error and is final: all before the statement was settled, so it is not sent again
}

// same reports whether a function runs this statement again, with the same arguments.
func (s step) same(text string, args []any) bool {
	return s.text == text && reflect.DeepEqual(s.args, args)
}

// errWaits is the panic that stops a function where it needs an unknown answer. If it were returned as an error, a
// function might handle it and go on.
var errWaits = errors.New("sql: the answer to a statement is not known yet")

// player answers the statements of a function from the last pass where it can, and records them for the next pass. It
// is the queryer of the function's Tx.
type player struct {
	lastSteps       []step                               // the function's steps in the last pass
	earlierSettled  bool                                 // the functions before this one are settled
	repeatsLastPass bool                                 // so far the function repeats its steps of the last pass
	steps           []step                               // the function's steps in this pass
	waits           bool                                 // the function was stopped, because it needs an unknown answer
	name            string                               // of the next statement
	live            func(text string, args []any) answer // asks PostgreSQL at once, if set
}

// note is the tracer of the functions: it keeps the name of the next statement for the real tracer.
func (p *player) note(name string) { p.name = name }

// allFromLastPass reports whether the function repeated its last steps, with answers from the last pass alone. A statement that differs
// from the last run never has fromLastPass, and neither has any statement after it.
func (p *player) allFromLastPass() bool {
	for _, step := range p.steps {
		if !step.fromLastPass {
			return false
		}
	}
	return true
}

// changed reports whether a statement of this run may have changed a row. Every statement may, unless its answer is known and it is a
// plain query or found no row to change.
func (p *player) changed() bool {
	return slices.ContainsFunc(p.steps, func(s step) bool {
		text := strings.TrimSpace(s.text)
		known := s.answer != nil && s.answer.err == nil
		// The count of a WITH statement does not include the writes in its WITH clause.
		return !known || strings.HasPrefix(text, "WITH") || s.answer.changed > 0 && !strings.HasPrefix(text, "SELECT")
	})
}

// next answers a statement. A statement whose rows are needed and not known ends the run of the function.
func (p *player) next(text string, args []any, rows bool) answer {
	now := step{name: p.name, text: text, args: args}
	p.name = ""
	// The function runs alone: each answer is asked for at once, and is final.
	if p.live != nil {
		got := p.live(text, args)
		now.answer, now.fromLastPass = &got, true
		p.steps = append(p.steps, now)
		return got
	}
	// If the function ran the same statement in the last pass, it gets the answer of the last pass. An error is final only if no
	// earlier answer can change.
	if n := len(p.steps); n < len(p.lastSteps) && p.lastSteps[n].same(text, args) {
		had := p.lastSteps[n]
		failed := had.answer != nil && had.answer.err != nil
		now.hasFinalError = failed && p.repeatsLastPass && (had.hasFinalError || had.fromLastPass && p.earlierSettled)
		if !failed || now.hasFinalError {
			now.answer = had.answer
		}
		now.fromLastPass = p.repeatsLastPass && (had.fromLastPass || now.hasFinalError)
	} else {
		p.repeatsLastPass = false
	}
	p.steps = append(p.steps, now)
	switch {
	case now.answer != nil:
		return *now.answer
	// Without the rows the function cannot go on. Without a count it can: the count is guessed.
	case rows:
		p.waits = true
		panic(errWaits)
	}
	return answer{changed: guessChangedRows(text, args)}
}

// guessChangedRows guesses how many rows a statement changes if nothing prevents it: one, or as many as it inserts. Most statements of a
// function name one row by its key, and callers check whether that row existed.
func guessChangedRows(text string, args []any) int64 {
	if strings.HasPrefix(text, "INSERT") && strings.Contains(text, "unnest(") && len(args) > 0 {
		return int64(reflect.ValueOf(args[0]).Len())
	}
	return 1
}

// query answers a statement whose rows are needed.
func (p *player) query(_ context.Context, text string, args []any) (foundRows, error) {
	got := p.next(text, args, true)
	return &heldRows{rows: got.rows}, got.err
}

// exec answers a statement from which the function gets only the number of changed rows.
func (p *player) exec(_ context.Context, text string, args []any) (sql.Result, error) {
	got := p.next(text, args, false)
	return driver.RowsAffected(got.changed), got.err
}

// readAnswer reads the answer to the next statement of a pass. All rows are read at once: the answers to the other
// statements follow them on the connection.
func readAnswer(results pgx.BatchResults) (got answer) {
	rows, err := results.Query()
	if err != nil {
		return answer{err: err}
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return answer{err: err}
		}
		// The driver returns narrower numbers than database/sql would, and a function must not see a difference.
		for i, value := range values {
			if values[i], err = plain(value); err != nil {
				return answer{err: err}
			}
		}
		got.rows = append(got.rows, values)
	}
	// The tag of a statement comes after its rows, so it is read last.
	got.err, got.changed = rows.Err(), rows.CommandTag().RowsAffected()
	return got
}

// plain is a value in the form in which database/sql returns it.
func plain(value any) (any, error) {
	switch v := value.(type) {
	case nil, int64, float64, bool, string, []byte:
		return v, nil
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case driver.Valuer: // a numeric
		return v.Value()
	}
	return nil, fmt.Errorf("sql: an unknown type of value, %T", value)
}

// heldRows are rows that were read before the function asks for them.
type heldRows struct {
	rows [][]any // rows that Next has not taken yet
	row  []any   // the row that Next took last
}

// Next takes the next row.
func (h *heldRows) Next() bool {
	if len(h.rows) == 0 {
		return false
	}
	h.row, h.rows = h.rows[0], h.rows[1:]
	return true
}

// Close does nothing: the rows are in memory.
func (h *heldRows) Close() error { return nil }

// Err is nil: an error of the statement was returned by query.
func (h *heldRows) Err() error { return nil }

// Scan converts as database/sql does, for the types that the store scans into.
func (h *heldRows) Scan(into ...any) error {
	if len(into) != len(h.row) {
		return fmt.Errorf("sql: %d columns are scanned into %d", len(h.row), len(into))
	}
	for i, value := range h.row {
		if err := assign(into[i], value); err != nil {
			return fmt.Errorf("sql: column %d: %w", i, err)
		}
	}
	return nil
}

// assign stores a value of PostgreSQL as database/sql does when it scans: a function runs in a batch or alone, and must not see a
// difference. A value that does not fit is an error, and is never truncated.
func assign(into, value any) error {
	if scanner, ok := into.(sql.Scanner); ok {
		return scanner.Scan(value)
	}
	// Every caller scans into pointers, as database/sql wants it.
	to := reflect.ValueOf(into).Elem()
	if to.Kind() == reflect.Interface {
		to.Set(reflect.ValueOf(&value).Elem())
		return nil
	}
	switch v := value.(type) {
	case int64:
		switch {
		case to.CanInt() && !to.OverflowInt(v):
			to.SetInt(v)
			return nil
		case to.CanUint() && v >= 0 && !to.OverflowUint(uint64(v)):
			to.SetUint(uint64(v))
			return nil
		case to.Kind() == reflect.Bool && (v == 0 || v == 1):
			to.SetBool(v == 1)
			return nil
		case to.CanFloat():
			to.SetFloat(float64(v))
			return nil
		}
	case string:
		switch {
		case to.Kind() == reflect.String:
			to.SetString(v)
			return nil
		case to.CanInt() || to.CanUint(): // a numeric
			number := sql.Null[int64]{}
			if err := number.Scan(v); err != nil {
				return err
			}
			return assign(into, number.V)
		}
	case bool:
		if to.Kind() == reflect.Bool {
			to.SetBool(v)
			return nil
		}
	case []byte:
		if to.Kind() == reflect.Slice {
			// This is a copy, as database/sql makes one: the function may run again with the same answer and must find it unchanged.
			to.SetBytes(append([]byte{}, v...))
			return nil
		}
	}
	return fmt.Errorf("%T does not fit into %s", value, to.Type())
}
