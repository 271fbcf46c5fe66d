-- +goose Up

-- What the tokens of the node's process begin with: another one under the same name says that the process before is gone. '': unknown.
ALTER TABLE nodes ADD COLUMN process TEXT NOT NULL DEFAULT '';
