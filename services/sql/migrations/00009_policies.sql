-- +goose Up

-- How a user wants their badges shown, on every device. Whoever has no row has the standard.
CREATE TABLE display_policies (
    user_number  BIGINT NOT NULL PRIMARY KEY,
    ver          BIGINT NOT NULL, -- raised with every change
    out_of_total BIGINT NOT NULL, -- sources that do not enter the total, a bit each
    as_dot       BIGINT NOT NULL, -- sources that show a dot instead of a number
    quiet_from   BIGINT NOT NULL, -- minute of the user's day; equal to quiet_to: no quiet hours
    quiet_to     BIGINT NOT NULL,
    offset_east  BIGINT NOT NULL  -- minutes ahead of UTC
);
