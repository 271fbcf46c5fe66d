-- +goose Up

-- notices: the last stamp of the notice clock, microseconds that rise with every change of an announcement or a dot.
-- announcement_floor: the greatest position that fell out of the list because newer ones came.
INSERT INTO counters (name, value) VALUES ('notices', 0), ('announcement_floor', 0), ('segments', 0);

-- A user carries 64 bits; a name is given the next one on first mention.
CREATE TABLE segments (
    name TEXT   NOT NULL PRIMARY KEY,
    bit  BIGINT NOT NULL
);

CREATE TABLE announcements (
    id         BIGINT  NOT NULL PRIMARY KEY,
    title      TEXT    NOT NULL,
    content    TEXT    NOT NULL,
    segments   BIGINT  NOT NULL, -- bits; 0: everyone
    created_at BIGINT  NOT NULL,
    updated_at BIGINT  NOT NULL,
    starts_at  BIGINT  NOT NULL,
    ends_at    BIGINT  NOT NULL, -- the greatest number: never
    position   BIGINT  NOT NULL, -- the stamp at which it took its place in the list; 0: it has none yet
    withdrawn  BOOLEAN NOT NULL
);

CREATE UNIQUE INDEX announcements_listed ON announcements (position) WHERE position > 0 AND NOT withdrawn;

CREATE INDEX announcements_by_end ON announcements (ends_at);

CREATE TABLE dot_raises (
    dot       TEXT   NOT NULL,
    segment   BIGINT NOT NULL, -- a bit; -1: everyone
    raised_at BIGINT NOT NULL, -- a stamp
    PRIMARY KEY (dot, segment)
) WITH (fillfactor = 70);

-- Where a user stands in both; without a row they were never here, or not for long.
CREATE TABLE user_notices (
    user_number BIGINT NOT NULL PRIMARY KEY,
    ver         BIGINT NOT NULL, -- rises with every change of the row, also over its deletion
    position    BIGINT NOT NULL, -- announcements after it are unread
    dots_from   BIGINT NOT NULL  -- dots raised up to it are not lit
) WITH (fillfactor = 70);

CREATE TABLE user_dots (
    user_number BIGINT NOT NULL,
    dot         TEXT   NOT NULL,
    seen        BIGINT NOT NULL, -- the stamp up to which it is cleared
    PRIMARY KEY (user_number, dot)
) WITH (fillfactor = 70);

-- What the host application says of a user, whether they were ever here or not.
CREATE TABLE user_segments (
    user_number BIGINT NOT NULL PRIMARY KEY,
    ver         BIGINT NOT NULL, -- rises with every change
    segments    BIGINT NOT NULL
) WITH (fillfactor = 70);
