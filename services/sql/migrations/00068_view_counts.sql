-- +goose Up

-- A view that counts in its reader's badges has the number of the reader's last touch here; 0: it does not count. The 200 views
-- that a reader touched last count.
ALTER TABLE user_access_log ADD COLUMN touched BIGINT NOT NULL DEFAULT 0;

UPDATE user_access_log SET touched = ranked.n FROM (
    SELECT user_number, view_code, view_id,
        row_number() OVER (PARTITION BY user_number ORDER BY last_access_at, view_code, view_id) AS n,
        count(*) OVER (PARTITION BY user_number) AS views
    FROM user_access_log WHERE view_code NOT IN ('home_page', 'live_board')
) AS ranked
WHERE user_access_log.user_number = ranked.user_number AND user_access_log.view_code = ranked.view_code
    AND user_access_log.view_id = ranked.view_id AND ranked.n > ranked.views - 200;

-- The views that count, of a reader and of a view.
CREATE INDEX views_by_reader ON user_access_log (user_number, touched) WHERE touched > 0;
CREATE INDEX views_by_view ON user_access_log (view_code, view_id, user_number) WHERE touched > 0;

-- A reader's part of the version of their count: the number of their touches, and of the changes of the views that no longer count.
CREATE TABLE view_readers (
    user_number BIGINT NOT NULL PRIMARY KEY,
    ver         BIGINT NOT NULL
) WITH (fillfactor = 70);

INSERT INTO view_readers (user_number, ver)
SELECT user_number, max(touched) FROM user_access_log WHERE touched > 0 GROUP BY user_number;

-- How often the items of a view changed: the version of a count is the sum over its views, and the reader's part.
CREATE TABLE view_changes (
    view_code TEXT   NOT NULL,
    view_id   TEXT   NOT NULL,
    seq       BIGINT NOT NULL,
    PRIMARY KEY (view_code, view_id)
) WITH (fillfactor = 70);
