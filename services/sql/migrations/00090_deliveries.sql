-- +goose Up

-- The jobs of site messages by their keys: a mark of a message that is not delivered yet looks up its recipients there.
CREATE INDEX jobs_delivering ON jobs (key) WHERE kind = 'message.deliver' AND key <> '';
