-- +goose Up

-- What its author hides from a user notifies them no more. The notifications from before are looked at again.
INSERT INTO jobs (kind, key, payload, due_at, created_at)
SELECT 'actor', CAST(follower AS TEXT) || '/' || CAST(author AS TEXT), '', (made >> 21) * 1000, (made >> 21) * 1000 FROM hides;

INSERT INTO jobs (kind, key, payload, due_at, created_at)
SELECT 'actor', CAST(blocked AS TEXT) || '/' || CAST(blocker AS TEXT), '', (made >> 21) * 1000, (made >> 21) * 1000 FROM blocks;
