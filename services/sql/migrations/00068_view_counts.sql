-- +goose Up

-- A view that counts in its reader's badges has the number of the reader's last touch here; 0: it does not count. The 200 views
-- that a reader touched last count. Those touched before this column count from their next touch on: the documents in Redis, which
-- have no count yet, are right without a rebuild.
ALTER TABLE user_access_log ADD COLUMN touched BIGINT NOT NULL DEFAULT 0;

-- The views that count, of a reader and of a view.
CREATE INDEX views_by_reader ON user_access_log (user_number, touched) WHERE touched > 0;
CREATE INDEX views_by_view ON user_access_log (view_code, view_id, user_number) WHERE touched > 0;

-- A reader's part of the version of their count: the number of their touches, and of the changes of the views that no longer count.
CREATE TABLE view_readers (
    user_number BIGINT NOT NULL PRIMARY KEY,
    ver         BIGINT NOT NULL
) WITH (fillfactor = 70);

-- How often the items of a view changed: the version of a count is the sum over its views, and the reader's part.
CREATE TABLE view_changes (
    view_code TEXT   NOT NULL,
    view_id   TEXT   NOT NULL,
    seq       BIGINT NOT NULL,
    PRIMARY KEY (view_code, view_id)
) WITH (fillfactor = 70);
