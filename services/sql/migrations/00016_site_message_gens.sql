-- +goose Up

-- A user's generation of site messages: raised with every "mark unread". A mark of a list that was shown in an older one
-- leaves alone what was marked unread since.
CREATE TABLE site_message_gens (
    user_number BIGINT NOT NULL PRIMARY KEY,
    gen         BIGINT NOT NULL
) WITH (fillfactor = 70);

ALTER TABLE site_message_recipients ADD COLUMN unread_gen BIGINT NOT NULL DEFAULT 0; -- in which it was last marked unread
