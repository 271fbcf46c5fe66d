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

// statementAnswer is PostgreSQL's answer to a statement: its rows, the number of changed rows, or its error.
type statementAnswer struct {
	rows        [][]any
	changedRows int64
	err         error
}

// recordedStatement is a statement that a function of a batch ran in a pass (see together.go), with its answer if it is known.
type recordedStatement struct {
	name, text         string
	args               []any
	answer             *statementAnswer // nil: not known yet
	answerFromLastPass bool             // the last pass gave this answer and all before it; false: it was prefetched, or is not known
	hasFinalError      bool             // the answer is an error, and no earlier answer can change any more: the statement is not sent again
}

// matches reports whether a function runs this statement again, with the same arguments.
func (s recordedStatement) matches(text string, args []any) bool {
	return s.text == text && reflect.DeepEqual(s.args, args)
}

// errAnswerUnknown is the panic that stops a function where it needs an unknown answer. If it were returned as an error, a
// function might handle it and go on.
var errAnswerUnknown = errors.New("sql: the answer to a statement is not known yet")

// replayer answers the statements of a function of a batch from the last pass (see together.go) where it can, and records them for the
// next pass. It is the queryer of the function's Tx.
type replayer struct {
	lastPassSteps           []recordedStatement                           // the function's steps in the last pass
	earlierFunctionsSettled bool                                          // all functions before this one are final or settled (functionRun)
	repeatsLastPass         bool                                          // so far the function repeats its steps of the last pass
	steps                   []recordedStatement                           // the function's steps in this pass
	waitsForAnswer          bool                                          // the function stopped: it needs an unknown answer
	nextStatementName       string                                        // of the next statement
	askDatabase             func(text string, args []any) statementAnswer // asks PostgreSQL at once, if set
}

// setNextStatementName is the tracer of the functions: it keeps the name of the next statement for the real tracer.
func (p *replayer) setNextStatementName(name string) { p.nextStatementName = name }

// allAnswersFromLastPass reports whether the function repeated its last steps, with answers from the last pass alone. A statement
// that differs from the last run never has answerFromLastPass, and neither has any statement after it.
func (p *replayer) allAnswersFromLastPass() bool {
	for _, step := range p.steps {
		if !step.answerFromLastPass {
			return false
		}
	}
	return true
}

// mayHaveChangedRows reports whether a statement of this run may have changed a row. Every statement may, unless its answer is
// known and it is a plain query or found no row to change.
func (p *replayer) mayHaveChangedRows() bool {
	return slices.ContainsFunc(p.steps, func(s recordedStatement) bool {
		text := strings.TrimSpace(s.text)
		known := s.answer != nil && s.answer.err == nil
		// The count of a WITH statement does not include the writes in its WITH clause.
		return !known || strings.HasPrefix(text, "WITH") || s.answer.changedRows > 0 && !strings.HasPrefix(text, "SELECT")
	})
}

// answerStatement answers a statement. A statement whose rows are needed and not known ends the run of the function.
func (p *replayer) answerStatement(text string, args []any, rows bool) statementAnswer {
	now := recordedStatement{name: p.nextStatementName, text: text, args: args}
	p.nextStatementName = ""
	// The function runs alone: each answer is asked for at once, and is final.
	if p.askDatabase != nil {
		got := p.askDatabase(text, args)
		now.answer, now.answerFromLastPass = &got, true
		p.steps = append(p.steps, now)
		return got
	}
	// If the function ran the same statement in the last pass, it gets the answer of the last pass. An error is final only if no
	// earlier answer can change.
	if n := len(p.steps); n < len(p.lastPassSteps) && p.lastPassSteps[n].matches(text, args) {
		had := p.lastPassSteps[n]
		failed := had.answer != nil && had.answer.err != nil
		now.hasFinalError = failed && p.repeatsLastPass && (had.hasFinalError || had.answerFromLastPass && p.earlierFunctionsSettled)
		if !failed || now.hasFinalError {
			now.answer = had.answer
		}
		now.answerFromLastPass = p.repeatsLastPass && (had.answerFromLastPass || now.hasFinalError)
	} else {
		p.repeatsLastPass = false
	}
	p.steps = append(p.steps, now)
	switch {
	case now.answer != nil:
		return *now.answer
	// Without the rows the function cannot go on. Without a count it can: the count is guessed.
	case rows:
		p.waitsForAnswer = true
		panic(errAnswerUnknown)
	}
	return statementAnswer{changedRows: guessChangedRows(text, args)}
}

// guessChangedRows guesses how many rows a statement changes if nothing prevents it: one, or as many as it inserts. Most statements
// of a function name one row by its key, and callers check whether that row existed.
func guessChangedRows(text string, args []any) int64 {
	if strings.HasPrefix(text, "INSERT") && strings.Contains(text, "unnest(") && len(args) > 0 {
		return int64(reflect.ValueOf(args[0]).Len())
	}
	return 1
}

// query answers a statement whose rows are needed.
func (p *replayer) query(_ context.Context, text string, args []any) (resultRows, error) {
	got := p.answerStatement(text, args, true)
	return &bufferedRows{remainingRows: got.rows}, got.err
}

// exec answers a statement from which the function gets only the number of changed rows.
func (p *replayer) exec(_ context.Context, text string, args []any) (sql.Result, error) {
	got := p.answerStatement(text, args, false)
	return driver.RowsAffected(got.changedRows), got.err
}

// readAnswer reads the answer to the next statement of a pass. All rows are read at once: the answers to the other
// statements follow them on the connection.
func readAnswer(results pgx.BatchResults) (got statementAnswer) {
	rows, err := results.Query()
	if err != nil {
		return statementAnswer{err: err}
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return statementAnswer{err: err}
		}
		// The driver returns narrower numbers than database/sql would, and a function must not see a difference.
		for i, value := range values {
			if values[i], err = toDriverValue(value); err != nil {
				return statementAnswer{err: err}
			}
		}
		got.rows = append(got.rows, values)
	}
	// The tag of a statement comes after its rows, so it is read last.
	got.err, got.changedRows = rows.Err(), rows.CommandTag().RowsAffected()
	return got
}

// toDriverValue is a value in the form in which database/sql returns it.
func toDriverValue(value any) (any, error) {
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

// bufferedRows are rows that were read before the function asks for them.
type bufferedRows struct {
	remainingRows [][]any // rows that Next has not taken yet
	currentRow    []any   // the row that Next took last
}

// Next takes the next row.
func (h *bufferedRows) Next() bool {
	if len(h.remainingRows) == 0 {
		return false
	}
	h.currentRow, h.remainingRows = h.remainingRows[0], h.remainingRows[1:]
	return true
}

// Close does nothing: the rows are in memory.
func (h *bufferedRows) Close() error { return nil }

// Err is nil: an error of the statement was returned by query.
func (h *bufferedRows) Err() error { return nil }

// Scan converts as database/sql does, for the types that the store scans into.
func (h *bufferedRows) Scan(into ...any) error {
	if len(into) != len(h.currentRow) {
		return fmt.Errorf("sql: %d columns are scanned into %d", len(h.currentRow), len(into))
	}
	for i, value := range h.currentRow {
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
