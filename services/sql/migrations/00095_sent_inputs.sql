-- +goose Up

-- A request that named objects by their refs, also as it was sent: what a ref names can come and go. The subject is the object
-- that it then named, '' for none.
ALTER TABLE idempotency ADD COLUMN sent_hash BYTEA NOT NULL DEFAULT '';
ALTER TABLE idempotency ADD COLUMN subject TEXT NOT NULL DEFAULT '';
