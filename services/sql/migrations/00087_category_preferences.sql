-- +goose Up

-- How a user wants categories of notifications to count and to alert. A user without a row has the default for all of them.
CREATE TABLE category_preferences (
    user_number BIGINT NOT NULL PRIMARY KEY,
    ver         BIGINT NOT NULL, -- rises with each change
    preferences TEXT   NOT NULL  -- JSON: by the name of the category, {"mode": "DOT", "push": false, "since": the time from which items alert}
);
