package sql

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidings/services"
)

// dialect is one of the two engines. Nearly all differences between their statements are in this file.
type dialect int

// The engines. A statement has a text for each.
const (
	SQLite dialect = iota
	Postgres
	dialectCount // the number of engines
)

// String is the name of an engine in settings and logs.
func (d dialect) String() string { return [dialectCount]string{"sqlite", "postgres"}[d] }

// Statement is one piece of SQL under a name that errors and logs can show. It is written once, with $1 for parameters and these
// phrases where the engines differ:
//
//	{in COLUMN $1 TYPE}             the column is among a list, which is one parameter
//	{rows $1 NAME TYPE, NAME TYPE}  a table made of one parameter of the type rows
//	{for update} {for share} {for key share} {skip locked}
//	{each TABLE ALIAS COLUMN, COLUMN} CONDITION {end ALIAS}
//	                                joins to each row so far the rows of the table that meet the condition, and of them the columns;
//	                                the engine keeps this order
//	{database clock}                the time in microseconds by the database's clock, not by this node's
//	{no wait for the disk}          the FROM and WHERE of a SELECT: PostgreSQL commits it without a wait, so a crash may lose it
type Statement struct {
	name  string
	texts [dialectCount]string // by engine
}

// NewStatement declares a statement. Its name is unique: a second statement of that name with another text panics.
func NewStatement(name, text string) Statement {
	s := AdHoc(name, text)
	if other, found := declaredStatements.LoadOrStore(name, s); found && other != s {
		panic(fmt.Sprintf("sql: two statements are named %q", name))
	}
	return s
}

// declaredStatements are all statements of the program, by name.
var declaredStatements sync.Map

// Statements are all statements that the program has declared, by name: for tests of their plans.
func Statements() map[string]Statement {
	all := map[string]Statement{}
	declaredStatements.Range(func(name, st any) bool {
		all[name.(string)] = st.(Statement)
		return true
	})
	return all
}

// Text is the statement's text for an engine.
func (st Statement) Text(d dialect) string { return st.texts[d] }

// AdHoc makes a statement that is not declared: for texts that are put together at run time, and for tests.
func AdHoc(name, text string) Statement {
	s := Statement{name: name}
	for d := range dialectCount {
		s.texts[d] = d.translate(text)
	}
	return s
}

// dialectPhrase finds the parts of a statement that differ between the engines.
var dialectPhrase = regexp.MustCompile(`\{[^{}]*\}`)

// translate makes the text of one engine. For a declared statement it runs once, when the package is initialised.
func (d dialect) translate(text string) string {
	text = dialectPhrase.ReplaceAllStringFunc(text, func(match string) string {
		words := strings.Fields(strings.Trim(match, "{}"))
		switch words[0] {
		case "in":
			return d.inClause(words[1], words[2], words[3])
		case "rows":
			return d.rowsSubquery(words[1], strings.Join(words[2:], " "))
		case "each":
			// SQLite keeps the order of a CROSS JOIN. PostgreSQL orders joins by its statistics, which right after an import do
			// not yet include the new rows; OFFSET makes the subquery an optimization fence.
			table, columns := words[1]+" "+words[2], strings.Join(words[3:], " ")
			return [dialectCount]string{SQLite: "CROSS JOIN " + table, Postgres: "CROSS JOIN LATERAL (SELECT " + columns + " FROM " + table}[d]
		case "end":
			return [dialectCount]string{Postgres: "OFFSET 0) AS " + words[1]}[d]
		case "database":
			return [dialectCount]string{
				SQLite:   "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
				Postgres: "(extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT",
			}[d]
		case "no":
			return [dialectCount]string{
				SQLite:   "WHERE TRUE",
				Postgres: "FROM (SELECT set_config('synchronous_commit', 'off', true)) AS setting WHERE TRUE",
			}[d]
		default:
			return d.lockingClause(strings.Join(words, " "))
		}
	})
	// SQLite writes parameters as ?1. In statements, $ occurs only in parameters.
	if d == SQLite {
		text = limitParameter.ReplaceAllString(text, "LIMIT $$$1 + 0")
		text = strings.ReplaceAll(text, "$", "?")
	}
	return text
}

// limitParameter matches a LIMIT that is a single parameter. SQLite plans by the bound value of such a parameter, so it prepares the
// statement anew whenever the value changes, which takes longer than most statements do. SQLite does not look into a sum, so the
// translation adds 0.
var limitParameter = regexp.MustCompile(`LIMIT \$(\d+)`)

// inClause translates {in}. A list is one parameter, so a statement has one text, and one plan, whatever the length.
func (d dialect) inClause(column, parameter, kind string) string {
	if d == Postgres {
		return fmt.Sprintf("%s = ANY(%s::%s[])", column, parameter, kind)
	}
	return fmt.Sprintf("%s IN (SELECT value FROM json_each(%s))", column, parameter)
}

// rowsSubquery translates {rows}. Both engines take the table as one JSON text, whatever the types of its columns.
func (d dialect) rowsSubquery(parameter, columns string) string {
	var picked []string
	// Each row is a JSON array, in a column that both engines call value. PostgreSQL's types have to be named; SQLite's follow from
	// the values.
	for i, column := range strings.Split(columns, ",") {
		name, kind, _ := strings.Cut(strings.TrimSpace(column), " ")
		if d == Postgres {
			picked = append(picked, fmt.Sprintf("(value->>%d)::%s AS %s", i, kind, name))
		} else {
			picked = append(picked, fmt.Sprintf("value->>%d AS %s", i, name))
		}
	}
	source := fmt.Sprintf("json_each(%s)", parameter)
	if d == Postgres {
		source = fmt.Sprintf("json_array_elements(%s::text::json)", parameter)
	}
	return fmt.Sprintf("(SELECT %s FROM %s)", strings.Join(picked, ", "), source)
}

// lockingClause is the clause that locks the rows of a SELECT. It is empty on SQLite, which has one writer at a time.
func (d dialect) lockingClause(words string) string {
	clauses := map[string]string{
		"for update":    "FOR UPDATE",
		"for share":     "FOR SHARE",
		"for key share": "FOR KEY SHARE",
		"skip locked":   "FOR UPDATE SKIP LOCKED",
	}
	// Statements are package variables, so a misspelt phrase panics when the program starts.
	clause, known := clauses[words]
	if !known {
		panic("sql: unknown phrase {" + words + "}")
	}
	if d == Postgres {
		return clause
	}
	return ""
}

// Insertion is an INSERT of any number of rows. On PostgreSQL each column is one parameter, a list.
type Insertion struct {
	Statement
	columnTypes []string // of the columns: BIGINT, TEXT, BYTEA or BOOLEAN
}

// NewInsertion makes an insertion into a table. columns is a list "NAME TYPE, NAME TYPE", and tail is the text after the values,
// such as ON CONFLICT. The name need not be unique.
func NewInsertion(name, table, columns, tail string) Insertion {
	var names, kinds, values, lists []string
	for i, column := range strings.Split(columns, ",") {
		name, kind, _ := strings.Cut(strings.TrimSpace(column), " ")
		// SQLite takes a row at a time, by numbered parameters; PostgreSQL takes whole columns.
		names = append(names, name)
		kinds = append(kinds, kind)
		values = append(values, "?"+strconv.Itoa(i+1))
		lists = append(lists, fmt.Sprintf("$%d::%s[]", i+1, kind))
	}
	head := fmt.Sprintf("INSERT INTO %s (%s)", table, strings.Join(names, ", "))
	return Insertion{columnTypes: kinds, Statement: Statement{name: name, texts: [dialectCount]string{
		SQLite:   fmt.Sprintf("%s VALUES (%s) %s", head, strings.Join(values, ", "), tail),
		Postgres: fmt.Sprintf("%s SELECT * FROM unnest(%s) %s", head, strings.Join(lists, ", "), tail),
	}}}
}

// columnArrays turns rows into columns: unnest makes rows of them again, so the text is the same for any number of rows.
func (ins Insertion) columnArrays(all [][]any) []any {
	lists := make([]any, len(ins.columnTypes))
	// The driver takes a typed slice as an array.
	for i, kind := range ins.columnTypes {
		switch kind {
		case "BIGINT":
			lists[i] = columnOf[int64](all, i)
		case "TEXT":
			lists[i] = columnOf[string](all, i)
		case "BYTEA":
			lists[i] = columnOf[[]byte](all, i)
		case "BOOLEAN":
			lists[i] = columnOf[bool](all, i)
		default:
			panic("sql: unknown type " + kind + " in " + ins.name)
		}
	}
	return lists
}

// columnOf is one column of the rows as a list of its type.
func columnOf[T any](all [][]any, i int) []T {
	list := make([]T, len(all))
	for row := range all {
		list[row] = Postgres.bindOne(all[row][i]).(T)
	}
	return list
}

// The parts of a migration that are for PostgreSQL alone.
var (
	tableOption = regexp.MustCompile(`WITH \(fillfactor = \d+\)`)           // the fill factor of a table
	included    = regexp.MustCompile(` INCLUDE \([^()]*\)`)                 // the columns that an index has beside its key
	numberKey   = regexp.MustCompile(`(\w+)\s+BIGINT NOT NULL PRIMARY KEY`) // a number that is the primary key
)

// translateMigration returns a migration, which is written for PostgreSQL, in the SQL of the engine. On SQLite a table with a fill
// factor becomes a table WITHOUT ROWID, which SQLite stores as the index of its primary key. A number that is a primary key becomes
// the rowid itself.
func (d dialect) translateMigration(text string) string {
	if d == Postgres {
		return text
	}
	text = tableOption.ReplaceAllString(text, "WITHOUT ROWID")
	text = included.ReplaceAllString(text, "")
	text = numberKey.ReplaceAllString(text, "$1 INTEGER NOT NULL PRIMARY KEY")
	return strings.NewReplacer(
		"BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT",
		"BYTEA", "BLOB",
	).Replace(text)
}

// RowsParameter is a parameter that is a table: see {rows}. Its values are numbers and texts, in the order of the columns.
type RowsParameter [][]any

// Number is an argument that is kept as a number, such as the ID of a kind of object. It says the number itself, because this package
// does not know the types of features. Like all numbers in SQL it is below 2^63.
type Number interface{ Int64() int64 }

// Numbers is a list of IDs as one argument, for {in}. The lists of UserID and int64 are arguments as they are.
func Numbers[N ~uint32 | ~uint64](list []N) any { return numberList[N](list) }

// numberList is the argument that Numbers makes.
type numberList[N ~uint32 | ~uint64] []N

// bindList is the list in the form of an engine.
func (list numberList[N]) bindList(d dialect) any { return bindNumbers(d, list) }

// bind turns arguments into values that the engine's driver takes.
func (d dialect) bind(args []any) []any {
	bound := make([]any, len(args))
	for i, arg := range args {
		bound[i] = d.bindOne(arg)
	}
	return bound
}

// bindOne turns the types of the program into numbers, texts and lists. SQLite has no lists, so they become JSON there. Times
// become microseconds.
func (d dialect) bindOne(arg any) any {
	switch value := arg.(type) {
	// The common types come first, because the cases are tried in order, for each argument of each statement.
	case services.UserID:
		return int64(value)
	case services.SortableID:
		return int64(value)
	case time.Time:
		return Micros(value)
	case nil, string, int64, int, bool, []byte:
		return value
	case []services.UserID:
		return bindNumbers(d, value)
	case []int64:
		return bindNumbers(d, value)
	case []string:
		if d == Postgres {
			return value
		}
		return AsJSON(value)
	case RowsParameter:
		return AsJSON(value)
	// bindByKind would bind these too, by reflection, which takes several times as long.
	case Number:
		return value.Int64()
	case interface{ bindList(d dialect) any }:
		return value.bindList(d)
	default:
		return bindByKind(value)
	}
}

// bindByKind turns a value of another type, such as a kind of post, into a text or a number. It allocates as much as the cases of
// bindOne, and takes some nanoseconds more.
func bindByKind(value any) any {
	switch v := reflect.ValueOf(value); {
	case v.Kind() == reflect.String:
		return v.String()
	case v.CanInt():
		return v.Int()
	// Both engines have signed numbers only. IDs and versions stay below 2^63.
	case v.CanUint():
		return int64(v.Uint())
	default:
		return value
	}
}

// bindNumbers makes a list of numbers. The JSON is printed by hand: lists of thousands of IDs are common.
func bindNumbers[N ~int64 | ~uint32 | ~uint64](d dialect, numbers []N) any {
	if d == Postgres {
		list := make([]int64, len(numbers))
		for i, number := range numbers {
			list[i] = int64(number)
		}
		return list
	}
	// 20 is the length of the greatest number with its comma.
	text := make([]byte, 0, 2+20*len(numbers))
	text = append(text, '[')
	for i, number := range numbers {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(number), 10)
	}
	return string(append(text, ']'))
}

// AsJSON prints lists of numbers and texts, which cannot fail.
func AsJSON(list any) string {
	text, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("sql: a parameter that is not JSON: %v", err))
	}
	return string(text)
}

// Micros is a time as tables keep it: microseconds since 1970.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// FromMicros is the time, in UTC, of a number of microseconds since 1970.
func FromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }
