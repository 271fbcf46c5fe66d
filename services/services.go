// Package services holds the types that every layer shares: ids and positions, users, posts, badges, errors, the clock. It
// imports nothing but the standard library and Unicode's normal forms (golang.org/x/text), keeps no state but an IDClock's, and
// does no I/O.
//
// A file holds the types of one subject. Three rules apply to all: the zero value means "none" or the default; a function with a
// parameter called field names that argument in its error; new constants of a list that is stored, in SQL, in documents or in
// cursors, are added at the end.
package services
