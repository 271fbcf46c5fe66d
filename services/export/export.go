// Package export writes everything that SQL holds about a user, one JSON object per line.
//
// Each feature lists its kinds of lines, and services/node lists the features; a test there finds a table that no feature
// exports. Write passes all lines: the lines of one kind are one snapshot, and memory use does not grow with the number of
// lines. Reader.Page reads the lines in pages; a line that exists during the whole export is on exactly one page.
//
// A line is made in three steps: a statement of its LineKind reads the row, formatLine gives each column the form that the kind
// declares, and emit gets the text. Nothing is cached: each line is as new as its reading.
//
// On failure: the reader has a part of the lines and an error; a page can be asked for again with the same position.
package export

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// LineKind is one kind of lines. Each row of its statements is one line; the user is the parameter $1, and other users are given by
// their keys, because IDs of users mean nothing outside. The lines have an order by columns that do not change, so that a page
// begins exactly where the previous page ended.
type LineKind struct {
	name                string              // the type that each line shows
	columnForms         string              // NAME FORM, NAME FORM for the columns, in their order; see columnFormatters
	keyTypes            []string            // the types of the columns that order the lines, BIGINT or TEXT; none: one line at most
	FirstLinesStatement sql.Statement       // selects at most $2 lines of the user $1, from the first line on
	nextLinesStatement  sql.Statement       // selects the lines after the keys $2, $3 and so on; the last parameter is the limit
	enums               map[string][]string // an additional form: its texts for the numbers 0, 1, 2, ...
}

// NewLineKind declares a kind of lines. fields are "NAME FORM, NAME FORM" for the columns, in their order. order is "COLUMN TYPE,
// COLUMN TYPE" for the columns that order the lines; together they differ for every line. order is "" for a kind of one line at
// most. text is a SELECT that ends with its WHERE. NewLineKind is for package variables.
func NewLineKind(name, fields, order, text string) LineKind {
	kind := LineKind{name: name, columnForms: fields}
	if order == "" {
		kind.FirstLinesStatement = sql.NewStatement("export "+name, text+" LIMIT $2")
		return kind
	}
	// Each parameter needs a type: PostgreSQL cannot infer one inside a row that is compared.
	var columns, values []string
	for i, key := range strings.Split(order, ", ") {
		column, form, _ := strings.Cut(key, " ")
		columns, kind.keyTypes = append(columns, column), append(kind.keyTypes, form)
		values = append(values, fmt.Sprintf("CAST($%d AS %s)", i+2, form))
	}
	keys := strings.Join(columns, ", ")
	// The key columns are selected first. They are not part of the line.
	text = strings.Replace(text, "SELECT ", "SELECT "+keys+", ", 1)
	kind.FirstLinesStatement = sql.NewStatement("export "+name, fmt.Sprintf("%s ORDER BY %s LIMIT $2", text, keys))
	// A comparison of rows walks the index from the position on; OFFSET would read all lines before the position, and would miss
	// lines after earlier lines were deleted.
	kind.nextLinesStatement = sql.NewStatement("export "+name+" onward", fmt.Sprintf("%s AND (%s) > (%s) ORDER BY %s LIMIT $%d", text, keys, strings.Join(values, ", "), keys, len(columns)+2))
	return kind
}

// WithEnum adds a form: the texts of the numbers from 0 on. A kind has one such form at most.
func (k LineKind) WithEnum(form string, texts []string) LineKind {
	k.enums = map[string][]string{form: texts}
	return k
}

// columnFormatters are the forms, by name: each defines how a column is written. An empty value (null, no ID, no time) is written
// as null. A form gets the column as a number or as a text, whichever the engine returns.
var columnFormatters = map[string]func(value int64, text string) any{
	"json":   func(_ int64, text string) any { return jsonOrNull(text) },
	"text":   func(_ int64, text string) any { return text },
	"user":   func(_ int64, text string) any { return orNull(services.GlobalID(services.UserType, text), text == "") },
	"number": func(value int64, _ string) any { return value },
	"digits": func(value int64, _ string) any { return fmt.Sprint(value) },
	"bool":   func(value int64, _ string) any { return value != 0 },
	"time": func(value int64, _ string) any {
		return orNull(sql.FromMicros(value).Format(time.RFC3339Nano), value == 0)
	},
	"moment": func(value int64, _ string) any {
		return orNull(services.SortableID(value).Time().Format(time.RFC3339Nano), value == 0)
	},
	"post":         idFormatter(services.PostType),
	"show":         idFormatter(services.ShowType),
	"notification": idFormatter(services.NotificationType),
	"upTo": func(value int64, _ string) any {
		return orNull(services.FormatNotificationUpTo(services.NotificationID(value)), value == 0)
	},
	"siteMessage": idFormatter(services.SiteMessageType),
	"message":     idFormatter(services.MessageType),
	"conversation": func(value int64, _ string) any {
		return services.ConversationID(value).GlobalID()
	},
	// This form writes the names of a set of sources, which is stored as bits.
	"sources": func(value int64, _ string) any {
		shown := services.UnpackSources(uint64(value))
		return sourcesThat(func(source services.Source) bool { return shown[source] })
	},
	"inTotal":    inTotalFormatter(true),
	"outOfTotal": inTotalFormatter(false),
}

// sourcesThat returns the sources that meet a condition, by name.
func sourcesThat(meets func(services.Source) bool) []services.Source {
	names := []services.Source{}
	for _, source := range services.Sources {
		if meets(source) {
			names = append(names, source)
		}
	}
	slices.Sort(names)
	return names
}

// inTotalFormatter returns the form of the sources that count in the total, or of those that do not.
func inTotalFormatter(in bool) func(int64, string) any {
	return func(turned int64, _ string) any {
		policy := services.DisplayPolicy{InTotalInverted: services.UnpackSources(uint64(turned))}
		return sourcesThat(func(source services.Source) bool { return policy.InTotal(source) == in })
	}
}

// idFormatter returns the form of an ID of a type; 0 means no ID.
func idFormatter(kind string) func(int64, string) any {
	return func(value int64, _ string) any {
		return orNull(services.GlobalID(kind, services.SortableID(value).String()), value == 0)
	}
}

// orNull returns the text, or null if the flag nothing is set.
func orNull(text string, nothing bool) any {
	if nothing {
		return nil
	}
	return text
}

// jsonOrNull returns stored JSON unchanged, or null for an empty text.
func jsonOrNull(text string) any {
	if text == "" {
		return nil
	}
	// The text was checked when it was stored.
	return json.RawMessage(text)
}

// Write passes all data that the kinds hold of a user to emit, one line each, in the order of the kinds. An error of emit
// ends it. The lines have the keys and ids of other users that the user interacted with, and no other data of them.
func Write(ctx context.Context, db sql.Reader, user services.UserID, kinds []LineKind, emit func(line []byte) error) error {
	for _, kind := range kinds {
		err := kind.eachLine(ctx, db, user, nil, math.MaxInt64, func(line []byte, _ []any) error { return emit(line) })
		if err != nil {
			return err
		}
	}
	return nil
}

// eachLine passes up to limit lines of a user, each with its keys, to emit: the lines after the keys in after, or from the first
// line on if after is nil. An error of emit ends it and is returned unwrapped, because Page compares it with errFull; the
// engine would wrap it.
func (k LineKind) eachLine(ctx context.Context, db sql.Reader, user services.UserID, after []any, limit int64, emit func(line []byte, keys []any) error) error {
	statement, args := k.FirstLinesStatement, []any{user}
	if after != nil {
		statement, args = k.nextLinesStatement, append(args, after...)
	}
	var refused error
	err := db.Each(ctx, statement, append(args, limit), func(scan func(...any) error) error {
		line, keys, err := k.formatLine(scan)
		if err == nil {
			err = emit(line, keys)
			refused = err
		}
		return err
	})
	if refused != nil {
		return refused
	}
	return err
}

// formatLine prints a row: its type first, then the fields in their order. It returns the keys of the row too.
func (k LineKind) formatLine(scan func(...any) error) (line []byte, keys []any, err error) {
	// Scan into any: the forms and the two engines decide the types.
	fields := strings.Split(k.columnForms, ", ")
	values := make([]any, len(k.keyTypes)+len(fields))
	into := make([]any, len(values))
	for i := range values {
		into[i] = &values[i]
	}
	if err := scan(into...); err != nil {
		return nil, nil, err
	}
	for i, form := range k.keyTypes {
		number, text := columnValue(values[i])
		if form == keyTypeText {
			keys = append(keys, text)
		} else {
			keys = append(keys, number)
		}
	}
	values = values[len(k.keyTypes):]
	var printed bytes.Buffer
	fmt.Fprintf(&printed, `{"type":%q`, k.name)
	for i, field := range fields {
		name, form, _ := strings.Cut(field, " ")
		var shown any
		// A NULL needs no form.
		if values[i] != nil {
			number, text := columnValue(values[i])
			shown = k.formatColumn(form, number, text)
		}
		value, err := json.Marshal(shown)
		if err != nil {
			return nil, nil, fmt.Errorf("%s of %s: %w", name, k.name, err)
		}
		fmt.Fprintf(&printed, ",%q:%s", name, value)
	}
	printed.WriteString("}\n")
	return printed.Bytes(), keys, nil
}

// formatColumn returns the value of a column in a form. A form that is not declared panics: the test that exports every kind finds
// it.
func (k LineKind) formatColumn(form string, number int64, text string) any {
	if texts, found := k.enums[form]; found {
		return texts[number]
	}
	return columnFormatters[form](number, text)
}

// columnValue returns a column in the form in which the engines' drivers return it: a number or a text.
func columnValue(value any) (number int64, text string) {
	switch value := value.(type) {
	case int64:
		return value, ""
	case bool:
		if value {
			return 1, ""
		}
		return 0, ""
	case []byte:
		return 0, string(value)
	case string:
		return 0, value
	}
	return 0, fmt.Sprint(value)
}
