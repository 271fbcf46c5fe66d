package engines

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// cellModel is the model of the test's table "cells": the number in the row of each key.
type cellModel map[int]int

// cellStep is one step of a test's function: it reads or changes a row of the table "cells". Its effect depends on the number that the
// steps before it have read.
type cellStep struct {
	name        string // one of cellStepNames
	key, addend int    // the addend is for the number that was read, or for the row
}

func (o cellStep) String() string { return fmt.Sprint(o.name, " ", o.key, " ", o.addend) }

// cellStepNames are the names of the steps; a name that occurs more than once is drawn more often. Some steps read rows. Some only change
// rows, so the batch guesses how many rows they change. Some fail or end the function.
var cellStepNames = []string{"read", "read", "put", "put", "put", "add", "drop", "drop", "drop", "keep", "keep", "insert", "try insert", "fail if odd", "skip if even"}

// cellTable is the table "cells", in the database or in the model. Each of its methods is one kind of step.
type cellTable interface {
	read(key int) (int, error)                   // -1 if there is no row
	updateRow(key, value int) (int, error)       // returns the number of changed rows
	addToRow(key, value int) (int, error)        // returns the sum, -1 if there is no row
	deleteRow(key int) (int, error)              // returns the number of deleted rows
	insertIfMissing(key, value int) (int, error) // adds the row if it does not exist, and returns the number of added rows
	insert(key, value int) error                 // an error if the row exists
	tryInsert(key, value int) (int, error)       // adds the row, and returns 1 if the row exists already
}

// cellKeyCount is the number of different keys that the random steps use.
const cellKeyCount = 3

// runCellSteps runs the steps of a function, and returns the number that it ends with.
func runCellSteps(table cellTable, ops []cellStep) (number int, err error) {
	for i := 0; i < len(ops) && err == nil; i++ {
		op := ops[i]
		value, found := (number+op.addend)%100+1, (number+op.addend+1)%cellKeyCount
		switch op.name {
		case "read":
			number, err = table.read(op.key)
		case "put":
			var changed int
			changed, err = table.updateRow(op.key, value)
			number += changed
		case "add":
			number, err = table.addToRow(op.key, op.addend)
		case "drop":
			number, err = table.deleteRow(found)
		case "keep":
			number, err = table.insertIfMissing(op.key, value)
		case "insert":
			err = table.insert(op.key, value)
		case "try insert":
			number, err = table.tryInsert(op.key, value)
		case "fail if odd":
			if number%2 != 0 {
				err = errDeliberate
			}
		case "skip if even":
			if number%2 == 0 {
				i++
			}
		}
	}
	return number, err
}

func (c cellModel) read(key int) (int, error) {
	if value, there := c[key]; there {
		return value, nil
	}
	return -1, nil
}

func (c cellModel) updateRow(key, value int) (int, error) {
	if _, there := c[key]; !there {
		return 0, nil
	}
	c[key] = value
	return 1, nil
}

func (c cellModel) addToRow(key, value int) (int, error) {
	if _, there := c[key]; there {
		c[key] += value
	}
	return c.read(key)
}

func (c cellModel) deleteRow(key int) (int, error) {
	before := len(c)
	delete(c, key)
	return before - len(c), nil
}

func (c cellModel) insertIfMissing(key, value int) (int, error) {
	before := len(c)
	if _, there := c[key]; !there {
		c[key] = value
	}
	return len(c) - before, nil
}

func (c cellModel) insert(key, value int) error {
	if added, _ := c.insertIfMissing(key, value); added == 0 {
		return errDeliberate
	}
	return nil
}

// tryInsert adds a row, and returns 1 if the row exists already.
func (c cellModel) tryInsert(key, value int) (int, error) {
	added, err := c.insertIfMissing(key, value)
	return 1 - added, err
}

// databaseCells is the table "cells" as a transaction of the database sees it.
type databaseCells struct {
	ctx context.Context
	tx  *sql.Tx
}

// queryNumber runs a statement that returns one number; -1 without a row.
func (c databaseCells) queryNumber(text string, args ...any) (int, error) {
	lines, err := sqltest.QueryLines(c.ctx, c.tx, text, args...)
	if err != nil || len(lines) == 0 {
		return -1, err
	}
	return strconv.Atoi(lines[0])
}

func (c databaseCells) read(key int) (int, error) {
	return c.queryNumber(`SELECT v FROM cells WHERE k = $1`, int64(key))
}

func (c databaseCells) updateRow(key, value int) (int, error) {
	return executeCountingRows(c.ctx, c.tx, `UPDATE cells SET v = $1 WHERE k = $2`, int64(value), int64(key))
}

func (c databaseCells) addToRow(key, value int) (int, error) {
	return c.queryNumber(`UPDATE cells SET v = v + $1 WHERE k = $2 RETURNING v`, int64(value), int64(key))
}

func (c databaseCells) deleteRow(key int) (int, error) {
	return executeCountingRows(c.ctx, c.tx, `DELETE FROM cells WHERE k = $1`, int64(key))
}

func (c databaseCells) insertIfMissing(key, value int) (int, error) {
	return executeCountingRows(c.ctx, c.tx, `INSERT INTO cells (k, v) VALUES ($1, $2) ON CONFLICT DO NOTHING`, int64(key), int64(value))
}

func (c databaseCells) insert(key, value int) error {
	_, err := executeCountingRows(c.ctx, c.tx, `INSERT INTO cells (k, v) VALUES ($1, $2)`, int64(key), int64(value))
	return err
}

// tryInsert adds a row in a savepoint, and returns 1 if that fails because the row exists already.
func (c databaseCells) tryInsert(key, value int) (int, error) {
	failed, err := c.tx.RunInSavepoint(c.ctx, func() error { return c.insert(key, value) })
	if failed != nil {
		return 1, err
	}
	return 0, err
}

// A batch has the same result as its functions have if they run one by one, even if a function reads and changes the data of
// earlier functions. Answers, rows and refusals equal the model's.
func TestABatchEqualsItsFunctionsOneByOne(t *testing.T) {
	const batches = 600
	eachTestDB(t, func(b *testDB) {
		b.MustWrite(func(tx *sql.Tx) error {
			return execute(b.Ctx, tx, `CREATE TABLE cells (k BIGINT PRIMARY KEY, v BIGINT NOT NULL)`)
		})
		model := cellModel{}
		random := rand.New(rand.NewPCG(7, 7))
		for batch := range batches {
			programs, most := make([][]cellStep, 2+random.IntN(7)), 5
			switch {
			case batch%10 == 0:
				programs = make([][]cellStep, 33+random.IntN(10)) // a long batch, which prefetches rows
			case batch%3 == 0:
				programs, most = make([][]cellStep, 1), 12 // a single function, whose statements are sent once if it is possible
			}
			for i := range programs {
				programs[i] = make([]cellStep, 1+random.IntN(most))
				for k := range programs[i] {
					programs[i][k] = cellStep{cellStepNames[random.IntN(len(cellStepNames))], random.IntN(cellKeyCount), random.IntN(10)}
				}
			}
			var fns []func(*sql.Tx) error
			numbers, want := make([]int, len(programs)), make([]int, len(programs))
			refused := make([]bool, len(programs))
			for i, program := range programs {
				fns = append(fns, func(tx *sql.Tx) (err error) {
					numbers[i], err = runCellSteps(databaseCells{b.Ctx, tx}, program)
					return err
				})
				before := maps.Clone(model)
				var err error
				if want[i], err = runCellSteps(model, program); err != nil {
					refused[i], model = true, before
				}
			}
			for i, err := range b.WriteAll(b.Ctx, fns) {
				if (err != nil) != refused[i] || numbers[i] != want[i] {
					b.T.Fatalf("batch %d, function %d of\n%v\nanswers %d %v, want %d, refused %v", batch, i, programs, numbers[i], err, want[i], refused[i])
				}
			}
			var lines []string
			for _, key := range slices.Sorted(maps.Keys(model)) {
				lines = append(lines, fmt.Sprint(key, " ", model[key]))
			}
			got := must(sqltest.QueryLines(b.Ctx, b, `SELECT k, v FROM cells ORDER BY k`))(b.T)
			if !slices.Equal(got, lines) {
				b.T.Fatalf("batch %d,\n%v\nleaves %q, want %q", batch, programs, got, lines)
			}
		}
	})
}
