package sql

import "context"

// Scan stores the columns of a row in the variables that it gets pointers to.
type Scan = func(into ...any) error

// ReadRows reads the rows of a statement. read scans a row.
func ReadRows[T any](ctx context.Context, r Reader, st Statement, args []any, read func(scan Scan, row *T) error) (list []T, err error) {
	err = r.Each(ctx, st, args, func(scan Scan) error {
		var row T
		err := read(scan, &row)
		list = append(list, row)
		return err
	})
	return list, err
}

// ReadByKey reads the rows of a statement into a map. read scans a row.
func ReadByKey[K comparable, V any](ctx context.Context, r Reader, st Statement, args []any, read func(scan Scan, key *K, value *V) error) (map[K]V, error) {
	found := map[K]V{}
	err := r.Each(ctx, st, args, func(scan Scan) error {
		var key K
		var value V
		err := read(scan, &key, &value)
		found[key] = value
		return err
	})
	return found, err
}

// ReadMap reads the rows of a statement with two columns: a key, and its value.
func ReadMap[K comparable, V any](ctx context.Context, r Reader, st Statement, args ...any) (map[K]V, error) {
	return ReadByKey(ctx, r, st, args, func(scan Scan, key *K, value *V) error { return scan(key, value) })
}

// ReadSet reads the rows of a statement with one column as a set.
func ReadSet[K comparable](ctx context.Context, r Reader, st Statement, args ...any) (map[K]bool, error) {
	return ReadByKey(ctx, r, st, args, func(scan Scan, key *K, in *bool) error {
		*in = true
		return scan(key)
	})
}

// ColumnParameter returns values as rows of one column.
func ColumnParameter[T any](values []T) RowsParameter {
	rows := make(RowsParameter, len(values))
	for i, value := range values {
		rows[i] = []any{value}
	}
	return rows
}
