-- +goose Up

-- How many likes and answers a post has: the sum of its rows. The transaction that adds or removes a like or an answer changes
-- one of them. There are several, because each stays locked until its transaction is on disk: see store.postCounts.
CREATE TABLE post_counts (
    post     BIGINT NOT NULL,
    part     BIGINT NOT NULL,
    likes    BIGINT NOT NULL, -- of one part it may be negative
    comments BIGINT NOT NULL, -- answers to the post that are not deleted
    PRIMARY KEY (post, part)
) WITH (fillfactor = 70);

INSERT INTO post_counts (post, part, likes, comments)
SELECT post, 0, sum(liked), sum(answered) FROM (
    SELECT post, 1 AS liked, 0 AS answered FROM likes
    UNION ALL SELECT parent, 0, 1 FROM posts WHERE parent IS NOT NULL AND deleted_at IS NULL
) AS facts GROUP BY post;

-- The likes of a post, the newest last.
CREATE INDEX likes_by_time ON likes (post, liked_at, liker);

-- The answers to a post that are not deleted.
DROP INDEX posts_by_parent;
CREATE INDEX posts_by_parent ON posts (parent, id) WHERE parent IS NOT NULL AND deleted_at IS NULL;

-- When the text was last edited; null: never. Before this column the time of the last change tells it, which a new post has too.
ALTER TABLE posts ADD COLUMN edited_at BIGINT;

UPDATE posts SET edited_at = updated_at WHERE deleted_at IS NULL AND updated_at > (id >> 21) * 1000 + 2000000;
