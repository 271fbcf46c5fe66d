-- +goose Up

-- The versions of badges are sums of numbers that rise with each change and that every node reads here: the versions of the
-- log at which something of an author or a host changed last.
ALTER TABLE authors ADD COLUMN pulled_ver BIGINT NOT NULL DEFAULT 0; -- which of their posts are pulled

DROP INDEX hosts_by_stamp;

ALTER TABLE hosts RENAME COLUMN stamp TO live_ver; -- which of their shows are live

UPDATE hosts SET live_ver = 0;
