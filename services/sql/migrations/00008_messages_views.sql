-- +goose Up

CREATE TABLE site_messages (
    id         BIGINT NOT NULL PRIMARY KEY, -- also its place: greater is newer
    import_key TEXT   NOT NULL DEFAULT '',  -- the name that an import gave it; '': it was sent
    type       TEXT   NOT NULL,
    title      TEXT   NOT NULL,
    content    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX site_messages_by_key ON site_messages (import_key) WHERE import_key <> '';

-- One row for each user who has a message.
CREATE TABLE site_message_recipients (
    user_number BIGINT NOT NULL,
    message     BIGINT NOT NULL,
    type        TEXT   NOT NULL, -- the message's, which never changes
    read_at     BIGINT,          -- null while it is unread
    PRIMARY KEY (user_number, message)
) WITH (fillfactor = 90);

-- The unread are a range of this index, which holds all that a count reads.
CREATE INDEX site_message_recipients_unread ON site_message_recipients (user_number, type, message) WHERE read_at IS NULL;

CREATE INDEX site_message_recipients_of_message ON site_message_recipients (message, read_at);

CREATE TABLE site_message_state (
    user_number BIGINT NOT NULL,
    type        TEXT   NOT NULL,
    ver         BIGINT NOT NULL, -- raised with every change of what is unread
    PRIMARY KEY (user_number, type)
) WITH (fillfactor = 70);

-- What the host application reports into views. A reader's last access of a view is a row of user_access_log, whose
-- position is a time there. What was removed stays with standing = false, so that a late report does not bring it back.
CREATE TABLE view_items (
    view_code TEXT    NOT NULL,
    view_id   TEXT    NOT NULL,
    item      TEXT    NOT NULL,
    at        BIGINT  NOT NULL,
    standing  BOOLEAN NOT NULL,
    PRIMARY KEY (view_code, view_id, item)
) WITH (fillfactor = 90);

-- The newest of a view are a range of this index.
CREATE INDEX view_items_newest ON view_items (view_code, view_id, at) WHERE standing;
