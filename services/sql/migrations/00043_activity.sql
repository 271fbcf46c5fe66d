-- +goose Up

-- When users count as idle and dormant: one row.
CREATE TABLE activity_thresholds (
    name        TEXT    NOT NULL PRIMARY KEY,
    idle_us     BIGINT  NOT NULL, -- microseconds since a user was seen last
    dormant_us  BIGINT  NOT NULL,
    away_before BIGINT  NOT NULL, -- microseconds since 1970: users not seen since may lack posts, whatever holds now
    by_admin    BOOLEAN NOT NULL  -- false: as the node was configured that started last
);
