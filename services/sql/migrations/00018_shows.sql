-- +goose Up

CREATE TABLE shows (
    id           BIGINT  NOT NULL PRIMARY KEY, -- also its place among equals: greater is first
    import_key   TEXT    NOT NULL DEFAULT '',  -- the name that an import gave it; '': it was scheduled
    host         BIGINT  NOT NULL,
    title        TEXT    NOT NULL,
    cover_url    TEXT    NOT NULL,
    replay_url   TEXT    NOT NULL,
    status       BIGINT  NOT NULL, -- 0 upcoming 1 live 2 replay 3 cancelled
    planned_at   BIGINT  NOT NULL, -- these four are whole milliseconds, in microseconds as every time
    started_at   BIGINT,
    ended_at     BIGINT,           -- of an upcoming show: its end was told before its start
    cancelled_at BIGINT,
    ver          BIGINT  NOT NULL, -- of the log, at which its status or place changed last; 0: no board has it yet
    live_ver     BIGINT  NOT NULL, -- of the log, at which it went live; 0: it never did
    live_stamp   BIGINT  NOT NULL, -- an id of that moment
    pull         BOOLEAN NOT NULL, -- its replay is in nobody's list
    updated_at   BIGINT  NOT NULL
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX shows_by_key ON shows (import_key) WHERE import_key <> '';

-- What nodes have in memory is a range of this index.
CREATE INDEX shows_active ON shows (host, id) WHERE status < 2;

-- Replay lists are ranges of this index: one for each host followed.
CREATE INDEX shows_replays ON shows (host, pull, ended_at, id) WHERE status = 2;

-- Where shows stood before: between two versions of the log. Boards of sessions that still run are made of it.
CREATE TABLE show_history (
    show      BIGINT NOT NULL,
    ver       BIGINT NOT NULL, -- from this version on
    until_ver BIGINT NOT NULL, -- before this one
    until_at  BIGINT NOT NULL, -- when that was
    host      BIGINT NOT NULL,
    status    BIGINT NOT NULL,
    score     BIGINT NOT NULL, -- its place: milliseconds, negated for a plan
    PRIMARY KEY (show, ver)
);

CREATE INDEX show_history_by_age ON show_history (until_at);

-- Users who ever had a show. Documents of followers name them; until all do, no board has their shows.
CREATE TABLE hosts (
    host    BIGINT  NOT NULL PRIMARY KEY,
    named   BOOLEAN NOT NULL, -- all documents do
    unnamed BIGINT  NOT NULL, -- chunks of followers whose documents do not name them yet
    stamp   BIGINT  NOT NULL  -- the last change of which of their shows are live (us), strictly rising over all hosts
) WITH (fillfactor = 70);

CREATE INDEX hosts_by_stamp ON hosts (stamp);

CREATE TABLE reminders (
    show        BIGINT NOT NULL,
    user_number BIGINT NOT NULL,
    made        BIGINT NOT NULL,
    PRIMARY KEY (show, user_number)
);

CREATE INDEX reminders_of_user ON reminders (user_number, show);

-- Follows of hosts that ended lately: what a viewer saw last may be of one of them, and their board goes on from there.
CREATE TABLE past_follows (
    follower BIGINT NOT NULL,
    followee BIGINT NOT NULL,
    until_at BIGINT NOT NULL,
    PRIMARY KEY (follower, followee)
) WITH (fillfactor = 80);

CREATE INDEX past_follows_by_age ON past_follows (until_at);
