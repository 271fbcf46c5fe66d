// Package services holds the words that every layer shares: ids and positions, users, posts, badges, errors,
// the clock. It imports nothing but the standard library, keeps no state but an IDClock's, and does no I/O.
package services
