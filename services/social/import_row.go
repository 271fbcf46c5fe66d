package social

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/people"
)

// maxLineBytes bounds a line: two keys and a time are far shorter.
const maxLineBytes = 4096

// column says which user of a follow a column of the file names.
type column int

const (
	unknownColumn  column = iota // no known name: the line is a row
	followerColumn               // the user who follows
	followeeColumn               // the user who is followed
	eitherColumn                 // the follower or the followee: the name of the other column says which
)

// columnNames are the names that the first line may give the columns, in lower case. Exports of applications and public data sets of
// graphs use these names.
var columnNames = map[column][]string{
	followerColumn: {"follower", "follower_id", "from", "from_id", "source", "src", "id_1", "id1", "node_1"},
	followeeColumn: {"followee", "followee_id", "followed", "followed_id", "follows", "following", "to", "to_id", "target", "dst", "friend", "friend_id", "id_2", "id2", "node_2"},
	eitherColumn:   {"user", "user_id"},
}

// columnOf finds a column by its name, in lower case.
func columnOf(name []byte) column {
	// No name belongs to two columns, so the order of the map does not matter.
	for column, names := range columnNames {
		if slices.Contains(names, string(name)) {
			return column
		}
	}
	return unknownColumn
}

// isHeader reports whether a line names the columns; it is given a file's first line that is no comment. A header that names the
// followee first is INVALID: the whole graph would be imported in the wrong direction. A line with an unknown name is a row:
// headers are optional, and two keys of users look like names.
func isHeader(line []byte) (bool, error) {
	// A copy in lower case, because a header may have any case. The keys of rows keep theirs.
	fields, err := split(bytes.ToLower(line))
	if err != nil || len(fields) < 2 {
		return false, nil // the error is reported when the line is read as a row
	}
	first, second := columnOf(fields[0]), columnOf(fields[1])
	switch {
	case first == unknownColumn || second == unknownColumn:
		return false, nil
	case second == followeeColumn && first != followeeColumn, first == followerColumn && second == eitherColumn:
		return true, nil
	}
	return false, services.Errorf(services.Invalid, "the first line names the columns %s: the follower must come first and then the followee, as in follower,followee",
		services.Quote(string(fields[0])+","+string(fields[1])))
}

// split splits a line into columns and trims blanks. Quotes are those of CSV; a field cannot continue in the next line.
func split(line []byte) ([][]byte, error) {
	// Most files have no quotes, and splitting at commas is much faster than a CSV reader for each line.
	if bytes.IndexByte(line, '"') < 0 {
		fields := bytes.Split(line, []byte{','})
		for i := range fields {
			fields[i] = bytes.TrimSpace(fields[i])
		}
		return fields, nil
	}
	reader := csv.NewReader(bytes.NewReader(line))
	reader.TrimLeadingSpace = true
	texts, err := reader.Read()
	if err != nil {
		return nil, services.Errorf(services.Invalid, "broken quotes")
	}
	return services.Map(texts, func(text string) []byte { return []byte(strings.TrimSpace(text)) }), nil
}

// parseRow parses a line. The error describes its fault. newest bounds the time of a follow.
func parseRow(line []byte, keys *people.KeyTable, newest services.SortableID) (followRow, error) {
	if len(line) > maxLineBytes {
		return followRow{}, services.Errorf(services.Invalid, "longer than %d bytes", maxLineBytes)
	}
	fields, err := split(line)
	if err != nil {
		return followRow{}, err
	}
	if len(fields) != 2 && len(fields) != 3 {
		return followRow{}, services.Errorf(services.Invalid, "2 or 3 columns are needed, follower,followee,since; got %d", len(fields))
	}
	// Add keys to the table only if the whole row is valid: each key in the table becomes a user.
	for _, field := range fields[:2] {
		if err := keys.CheckKey(field); err != nil {
			return followRow{}, err
		}
	}
	if bytes.Equal(fields[0], fields[1]) {
		return followRow{}, services.Errorf(services.Invalid, "%s cannot follow themselves", services.Quote(keys.FullKey(fields[0])))
	}
	var next followRow
	if len(fields) == 3 && len(fields[2]) > 0 {
		if next.since, err = readSince(string(fields[2]), newest); err != nil {
			return followRow{}, err
		}
	}
	next.follower, next.followee = keys.IndexOf(fields[0]), keys.IndexOf(fields[1])
	return next, nil
}

// readSince parses the third column. A time after newest is INVALID, because a follow that begins in the future would count
// nothing.
func readSince(text string, newest services.SortableID) (services.SortableID, error) {
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, services.Errorf(services.Invalid, "since is %s: a time like 2026-01-31T09:30:00Z is needed", services.Quote(text))
	}
	// The ID of millisecond 0 is 0, which means that a row has no time.
	if moment.UnixMilli() < 1 || services.SortableIDAt(moment) > newest {
		return 0, services.Errorf(services.Invalid, "since is %s: it is before 1970 or in the future", services.Quote(text))
	}
	// The first ID of the millisecond: posts published in that millisecond count.
	return services.SortableIDAt(moment), nil
}
