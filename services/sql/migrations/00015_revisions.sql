-- +goose Up

-- Raised with every change of what a conversation shows that is no new message: a recall, who is a member.
ALTER TABLE conversations ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
