-- +goose Up

INSERT INTO counters (name, value) VALUES ('conversations', 0);

CREATE TABLE conversations (
    id         BIGINT NOT NULL PRIMARY KEY,
    kind       TEXT   NOT NULL,
    pair       TEXT   UNIQUE,   -- DIRECT: the numbers of the two, the lower first; else null
    title      TEXT   NOT NULL,
    creator    BIGINT NOT NULL,
    head       BIGINT NOT NULL, -- the number of the newest message; only grows
    last_at    BIGINT NOT NULL, -- of the newest message, or of the creation
    members    BIGINT NOT NULL, -- those who have not left
    way        TEXT   NOT NULL, -- how its unread are counted
    way_ver    BIGINT NOT NULL, -- raised with every change of way
    minute     BIGINT NOT NULL, -- since 1970, of the newest message
    in_minute  BIGINT NOT NULL, -- messages in it
    in_before  BIGINT NOT NULL  -- messages in the minute before it
);

-- unread = head - base + k. base, k, mentions and the rest of a row are absolute: mv tells which is newer. Who left
-- keeps their row, so that late changes are recognized as late.
CREATE TABLE conversation_members (
    conversation BIGINT  NOT NULL,
    user_number  BIGINT  NOT NULL,
    base         BIGINT  NOT NULL, -- read up to this number
    k            BIGINT  NOT NULL, -- minus the own and recalled messages above base
    mv           BIGINT  NOT NULL, -- raised with every change of the row
    gen          BIGINT  NOT NULL, -- raised with every "mark unread": a mark that names an older one is late
    mentions     BIGINT  NOT NULL, -- messages above base that mention the member
    muted        BOOLEAN NOT NULL,
    inside       BOOLEAN NOT NULL, -- some device has a lease
    joined_at    BIGINT  NOT NULL,
    left_at      BIGINT  NOT NULL, -- 0: still a member
    PRIMARY KEY (conversation, user_number)
) WITH (fillfactor = 70);

CREATE INDEX conversation_members_by_user ON conversation_members (user_number, conversation);

CREATE TABLE conversation_messages (
    conversation BIGINT NOT NULL,
    number       BIGINT NOT NULL, -- from 1 on, without holes
    author       BIGINT NOT NULL,
    body         TEXT   NOT NULL, -- '' when recalled
    sent_at      BIGINT NOT NULL, -- rises with number
    recalled_at  BIGINT NOT NULL, -- 0: it stands
    PRIMARY KEY (conversation, number)
) WITH (fillfactor = 100);

-- What k counts is a range of these two, however far back the reader goes.
CREATE INDEX conversation_messages_own ON conversation_messages (conversation, author, number);
CREATE INDEX conversation_messages_recalled ON conversation_messages (conversation, number) WHERE recalled_at > 0;

-- One row for each member that a standing message mentions.
CREATE TABLE conversation_mentions (
    conversation BIGINT NOT NULL,
    user_number  BIGINT NOT NULL,
    number       BIGINT NOT NULL,
    PRIMARY KEY (conversation, user_number, number)
) WITH (fillfactor = 100);

CREATE INDEX conversation_mentions_by_message ON conversation_mentions (conversation, number);

-- A device is inside until its lease ends.
CREATE TABLE conversation_leases (
    conversation BIGINT NOT NULL,
    user_number  BIGINT NOT NULL,
    device       TEXT   NOT NULL,
    until_at     BIGINT NOT NULL,
    PRIMARY KEY (conversation, user_number, device)
) WITH (fillfactor = 70);

CREATE INDEX conversation_leases_by_device ON conversation_leases (user_number, device);
