-- +goose Up

-- Web Push: the browsers that get the number of their user's icon.

-- One row, 'devices'. read_to: the position in the change stream up to which devices know that they are due. token, until_us, node: the
-- one node that sends, and when another may take over, by the database's clock. The counts are for metrics.
CREATE TABLE device_readers (
    name      TEXT   NOT NULL PRIMARY KEY,
    read_to   BIGINT NOT NULL,
    token     TEXT   NOT NULL,
    until_us  BIGINT NOT NULL,
    node      TEXT   NOT NULL,
    delivered BIGINT NOT NULL, -- messages that push services accepted
    failed    BIGINT NOT NULL, -- requests that failed
    removed   BIGINT NOT NULL, -- devices that their push service did not know any more
    error     TEXT   NOT NULL  -- the last failure
);

INSERT INTO device_readers (name, read_to, token, until_us, node, delivered, failed, removed, error) VALUES ('devices', 0, '', 0, '', 0, 0, 0, '');

CREATE TABLE devices (
    hash          TEXT    NOT NULL PRIMARY KEY, -- of the endpoint and the keys
    user_number   BIGINT  NOT NULL,
    endpoint      TEXT    NOT NULL, -- the address of the browser at its push service
    service       TEXT    NOT NULL, -- the push service: the host of the endpoint
    p256dh        TEXT    NOT NULL, -- the keys that messages are encrypted with
    auth          TEXT    NOT NULL,
    vapid         TEXT    NOT NULL, -- the public key of the server that the browser subscribed with
    name          TEXT    NOT NULL,
    silent        BOOLEAN NOT NULL, -- whether it also gets messages that show nothing
    registered_at BIGINT  NOT NULL, -- differs for every registration that changed the row
    seen_at       BIGINT  NOT NULL, -- the last registration
    has           BIGINT  NOT NULL, -- the version that it has; 0: none
    heard         BIGINT  NOT NULL, -- up to this version nothing is to be alerted of
    want          BIGINT  NOT NULL, -- the newest version of the user
    due_at        BIGINT  NOT NULL, -- 0: it has what it wants, or was given up
    attempts      BIGINT  NOT NULL, -- that failed since the last that did not
    first_at      BIGINT  NOT NULL, -- when the first of them failed, or the waiting for its user to be away began; 0: neither
    dead_at       BIGINT  NOT NULL, -- when it was given up; 0: it was not
    delivered_at  BIGINT  NOT NULL, -- 0: never
    error         TEXT    NOT NULL  -- of the last failure since the last delivery
);

CREATE INDEX devices_by_user ON devices (user_number);
CREATE INDEX devices_due ON devices (due_at, service) WHERE due_at > 0;
CREATE INDEX devices_failing ON devices (dead_at, attempts) WHERE attempts > 0;
