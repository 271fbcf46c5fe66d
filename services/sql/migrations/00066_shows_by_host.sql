-- +goose Up

-- A page of the shows of a host is a range of this index.
CREATE INDEX shows_by_host ON shows (host, id);
