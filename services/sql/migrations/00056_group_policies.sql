-- +goose Up

-- Who may add a user to groups and rooms. A user without a row may be added by everyone.
CREATE TABLE group_policies (
    user_number BIGINT NOT NULL PRIMARY KEY,
    policy      TEXT   NOT NULL -- EVERYONE, WHO_I_FOLLOW or NOBODY
);
