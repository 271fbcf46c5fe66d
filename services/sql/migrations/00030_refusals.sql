-- +goose Up

-- A key remembers a refusal as well: the code, '' where the mutation happened, and the message.
ALTER TABLE idempotency ADD COLUMN code TEXT NOT NULL DEFAULT '';
ALTER TABLE idempotency ADD COLUMN message TEXT NOT NULL DEFAULT '';
