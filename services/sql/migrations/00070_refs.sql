-- +goose Up

-- What the host application attached to objects: its own ID, an address, data. An object without any of them has no row.
CREATE TABLE refs (
    type   TEXT   NOT NULL, -- post, show, message, conversation, siteMessage, announcement
    object BIGINT NOT NULL,
    ref    TEXT   NOT NULL, -- the host's own ID, unique for the type; '' is none
    owner  BIGINT NOT NULL, -- who created the object; 0 is the host application
    url    TEXT   NOT NULL, -- '' is none
    data   TEXT   NOT NULL, -- a JSON object; '' is none
    PRIMARY KEY (type, object)
);

-- A ref stays taken when its object is deleted: a late repetition must not create it again.
CREATE UNIQUE INDEX refs_by_ref ON refs (type, ref) WHERE ref <> '';

CREATE INDEX refs_by_owner ON refs (owner, type, object);
