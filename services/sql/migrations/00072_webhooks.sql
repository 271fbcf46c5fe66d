-- +goose Up

-- Webhooks: the endpoints of the host application that changes of badges are sent to.

-- secrets: JSON, the newest first. read_to: the position in the change stream up to which changes are delivered, or have a row in
-- webhook_letters. full_to: the same, of the last time when nothing was left: a change that was replaced since is not at its old position
-- any more, so read_to does not say whether it was delivered. token, until_us, node: the one node that delivers, and when another may take over, by the database's clock.
CREATE TABLE webhooks (
    name       TEXT    NOT NULL PRIMARY KEY,
    url        TEXT    NOT NULL,
    secrets    TEXT    NOT NULL,
    away       BOOLEAN NOT NULL,
    totals     BOOLEAN NOT NULL,
    sources    TEXT    NOT NULL, -- separated by commas; '': all
    since      BIGINT  NOT NULL, -- the head of the stream when it was added: what is older alerts nobody
    read_to    BIGINT  NOT NULL,
    full_to    BIGINT  NOT NULL,
    created_at BIGINT  NOT NULL,
    token      TEXT    NOT NULL,
    until_us   BIGINT  NOT NULL,
    node       TEXT    NOT NULL,
    delivered  BIGINT  NOT NULL, -- events
    failures   BIGINT  NOT NULL, -- requests that failed since the last one that did not
    retry_at   BIGINT  NOT NULL, -- nothing is sent before; 0: at once
    halted_at  BIGINT  NOT NULL, -- when the receiver said that it is gone; 0: it did not
    ok_at      BIGINT  NOT NULL, -- 0: never
    failed_at  BIGINT  NOT NULL, -- 0: never
    error      TEXT    NOT NULL  -- of the last failure
);

-- What one endpoint has yet to get of one user: the newest change, which is in the stream.
CREATE TABLE webhook_letters (
    webhook     TEXT   NOT NULL,
    user_number BIGINT NOT NULL,
    base        BIGINT NOT NULL, -- the version up to which the endpoint has the user's changes
    heard       BIGINT NOT NULL, -- the version up to which an open socket alerted the user
    seq         BIGINT NOT NULL, -- the version tried last
    attempts    BIGINT NOT NULL, -- 0: it waits until the user is away
    first_at    BIGINT NOT NULL, -- when the first attempt failed, or the waiting began
    due_at      BIGINT NOT NULL,
    dead_at     BIGINT NOT NULL, -- when it was given up; 0: it was not
    status      BIGINT NOT NULL, -- the HTTP status of the last attempt; 0: there was no answer
    error       TEXT   NOT NULL,
    PRIMARY KEY (webhook, user_number)
);

CREATE INDEX webhook_letters_by_time ON webhook_letters (webhook, dead_at, due_at);
CREATE INDEX webhook_letters_by_user ON webhook_letters (user_number);
