-- +goose Up

-- What operators did. The id has the time.
CREATE TABLE acts (
    id      BIGINT NOT NULL PRIMARY KEY,
    actor   TEXT   NOT NULL, -- the subject of the token; '': it names nobody
    action  TEXT   NOT NULL, -- the name of the mutation, or of the console's act
    target  TEXT   NOT NULL, -- on what: a global ID, or a name; '': on the installation
    details TEXT   NOT NULL, -- what was set
    outcome TEXT   NOT NULL  -- 'STARTED', 'DONE', or the code of the error
);

CREATE INDEX acts_by_target ON acts (target, id);
