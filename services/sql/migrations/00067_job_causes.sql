-- +goose Up

-- The span that a job is a consequence of, in the form of the header traceparent; '': none is recorded.
ALTER TABLE jobs ADD COLUMN cause TEXT NOT NULL DEFAULT '';
