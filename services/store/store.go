// Package store holds the facts in SQL that several features use: users, follows, restrictions, positions. Other facts are in the
// packages of their features. Everything else is derived from facts.
//
// Its statements run by services/sql, whose promises are its own: a write that was answered is on disk, and what one
// transaction writes is there whole or not at all, on both engines.
package store

import (
	"context"

	"tidings/services/sql"
)

// Store is an open database with these facts. It is safe for concurrent use.
type Store struct{ *sql.DB }

// Tx is a write transaction with these facts. See sql.Tx for its life.
type Tx struct{ *sql.Tx }

// In is the transaction tx with these facts.
func In(tx *sql.Tx) *Tx { return &Tx{tx} }

// Open opens the database; see sql.Open.
func Open(ctx context.Context, cfg sql.Config) (*Store, error) {
	db, err := sql.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Store{db}, nil
}

// Write runs fn in a transaction; see sql.DB.Write.
func (s *Store) Write(ctx context.Context, fn func(tx *Tx) error) error {
	return s.DB.Write(ctx, func(tx *sql.Tx) error { return fn(&Tx{tx}) })
}

// WriteAll runs functions in one transaction where that is possible; see sql.DB.WriteAll.
func (s *Store) WriteAll(ctx context.Context, fns []func(tx *Tx) error) []error {
	all := make([]func(*sql.Tx) error, len(fns))
	for i, fn := range fns {
		all[i] = func(tx *sql.Tx) error { return fn(&Tx{tx}) }
	}
	return s.DB.WriteAll(ctx, all)
}
