-- +goose Up

-- What is off the feed enters no home feed and is not counted there; it is decided once, when it is published.
ALTER TABLE posts ADD COLUMN parent BIGINT; -- what a comment or a reply answers; null: nothing
ALTER TABLE posts ADD COLUMN off_feed BOOLEAN NOT NULL DEFAULT FALSE;

DROP INDEX posts_by_author;

-- Feeds are ranges of this index: one for each author followed.
CREATE INDEX posts_by_author ON posts (author, id) WHERE deleted_at IS NULL AND NOT off_feed;

CREATE INDEX posts_by_parent ON posts (parent, id) WHERE parent IS NOT NULL;

CREATE TABLE mentions (
    post      BIGINT NOT NULL,
    mentioned BIGINT NOT NULL,
    PRIMARY KEY (post, mentioned)
) WITH (fillfactor = 100);

-- One row for each recipient, whose lock orders everything that happens to their notifications.
CREATE TABLE notification_heads (
    recipient BIGINT NOT NULL,
    head      BIGINT NOT NULL, -- the greatest place given, of all categories
    gen       BIGINT NOT NULL, -- generation: raised by every "mark unread" and every undo
    undo      BIGINT NOT NULL, -- the number of the last "mark all read"
    undo_at   BIGINT NOT NULL, -- when that was; 0: it can be undone no more
    PRIMARY KEY (recipient)
) WITH (fillfactor = 70);

INSERT INTO notification_heads (recipient, head, gen, undo, undo_at)
SELECT recipient, max(head), 0, 0, 0 FROM notification_state GROUP BY recipient;

-- The causes gain what their actor did it with: somebody comments on one post more than once.
CREATE TABLE notification_causes_of_objects (
    recipient BIGINT  NOT NULL,
    category  TEXT    NOT NULL,
    subject   BIGINT  NOT NULL, -- what it is about; 0: the recipient
    actor     BIGINT  NOT NULL,
    object    BIGINT  NOT NULL, -- the comment; 0 in every other category
    place     BIGINT  NOT NULL, -- the order of arrival at this recipient
    bucket    BIGINT  NOT NULL, -- half days since 1970: two causes of one subject and bucket are one group
    at        BIGINT  NOT NULL, -- when it happened
    standing  BOOLEAN NOT NULL,
    PRIMARY KEY (recipient, category, subject, actor, object)
) WITH (fillfactor = 90);

INSERT INTO notification_causes_of_objects (recipient, category, subject, actor, object, place, bucket, at, standing)
SELECT recipient, category, subject, actor, 0, place, bucket, at, standing FROM notification_causes;

DROP TABLE notification_causes;

ALTER TABLE notification_causes_of_objects RENAME TO notification_causes;

-- A place names its cause, and by it the group that it is in.
CREATE UNIQUE INDEX notification_causes_by_place ON notification_causes (recipient, place);

-- The causes of a group, the newest last.
CREATE INDEX notification_causes_of_group ON notification_causes (recipient, category, subject, bucket, place) WHERE standing;

-- What a list shows as one line. A group without a standing cause has newest = 0.
CREATE TABLE notification_groups (
    recipient  BIGINT NOT NULL,
    category   TEXT   NOT NULL,
    subject    BIGINT NOT NULL,
    bucket     BIGINT NOT NULL,
    top        BIGINT NOT NULL, -- the greatest place of a cause, standing or not
    newest     BIGINT NOT NULL, -- the greatest place of a standing cause
    causes     BIGINT NOT NULL, -- how many stand
    read_to    BIGINT NOT NULL, -- the causes up to this place were read
    unread_gen BIGINT NOT NULL, -- the generation that "mark unread" opened for it; 0: never
    undo       BIGINT NOT NULL, -- the "mark all read" that read it last; 0: something else did
    undo_to    BIGINT NOT NULL, -- read_to before that
    PRIMARY KEY (recipient, category, subject, bucket)
) WITH (fillfactor = 70);

INSERT INTO notification_groups (recipient, category, subject, bucket, top, newest, causes, read_to, unread_gen, undo, undo_to)
SELECT recipient, category, subject, bucket, max(place), max(CASE WHEN standing THEN place ELSE 0 END), sum(CASE WHEN standing THEN 1 ELSE 0 END), 0, 0, 0, 0
FROM notification_causes GROUP BY recipient, category, subject, bucket;

-- A list is a range of this index for each category.
CREATE INDEX notification_groups_listed ON notification_groups (recipient, category, newest) WHERE newest > 0;

-- The unread are this index, the unseen a range of it, which holds all that a recount reads.
CREATE INDEX notification_groups_unread ON notification_groups (recipient, category, newest, bucket, read_to) WHERE newest > read_to;

-- Where the newest was undone and not read: "mark all read" holds for it too, should it come back.
CREATE INDEX notification_groups_undone ON notification_groups (recipient, category) WHERE top > newest AND top > read_to;
