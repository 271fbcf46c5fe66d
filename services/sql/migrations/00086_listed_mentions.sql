-- +goose Up

-- Whether the list of a post mentions the user, also if its body does. Null if the row is from before this column, or of a node of that
-- time: then it was the list if the body does not name the user.
ALTER TABLE mentions ADD COLUMN listed BOOLEAN;
