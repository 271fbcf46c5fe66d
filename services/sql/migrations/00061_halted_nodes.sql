-- +goose Up

-- Jobs of the node wait, or waited a moment ago, because an engine does not answer it.
ALTER TABLE nodes ADD COLUMN halted BOOLEAN NOT NULL DEFAULT FALSE;
