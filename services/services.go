// Package services holds the words that every layer shares: ids and positions, users, posts, badges, errors, the clock. It
// imports nothing but the standard library and Unicode's normal forms (golang.org/x/text), keeps no state but an IDClock's,
// and does no I/O.
//
// A file holds the words of one subject. What they have in common: the zero value means "none" or the default; a function with a
// parameter called field names that argument in its error; constants that are stored, in SQL, in documents or in cursors, are only
// ever added to, at the end.
package services
