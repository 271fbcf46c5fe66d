-- +goose Up

-- An ID of the time of the edit by which the post mentions the user. 0 if the post has mentioned them since it was published, and for
-- rows from before this column.
ALTER TABLE mentions ADD COLUMN since BIGINT NOT NULL DEFAULT 0;
