-- +goose Up

ALTER TABLE posts ADD COLUMN import_key TEXT NOT NULL DEFAULT ''; -- the name that an import gave it; '': it was published

CREATE UNIQUE INDEX posts_by_import_key ON posts (import_key) WHERE import_key <> '';
