-- The application's own tables. Nothing in them knows Tidings, except for the last four.

CREATE TABLE IF NOT EXISTS users (
  key  TEXT PRIMARY KEY, -- what the user is called in Tidings too, see "Keys of users" in docs/embed.md
  name TEXT NOT NULL
);

-- AUTOINCREMENT: an article's ref in Tidings is made of its id, and stays taken when the article is deleted. An id must not come back.
CREATE TABLE IF NOT EXISTS articles (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  author TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
  body   TEXT NOT NULL,
  at     TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS follows (
  reader TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
  author TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
  since  TEXT NOT NULL,
  PRIMARY KEY (reader, author)
);

CREATE TABLE IF NOT EXISTS likes (
  reader  TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
  article INTEGER NOT NULL REFERENCES articles ON DELETE CASCADE,
  PRIMARY KEY (reader, article)
);

-- What Tidings has yet to hear. A row is written in the transaction of the fact that it tells, so one is there if and only if the other is.
-- AUTOINCREMENT: the idempotency key of an event is made of its id.
CREATE TABLE IF NOT EXISTS outbox (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  actor  TEXT NOT NULL, -- the user who acts
  other  TEXT NOT NULL, -- the user that the act names; '' if there is none
  action TEXT NOT NULL, -- JSON, as IngestAction has it; '' asks to erase the actor
  at     TEXT NOT NULL
);

-- What Tidings refused: for a person to look at.
CREATE TABLE IF NOT EXISTS refused (
  id     INTEGER PRIMARY KEY, -- as in the outbox
  actor  TEXT NOT NULL,
  other  TEXT NOT NULL,
  action TEXT NOT NULL,
  error  TEXT NOT NULL
);

-- Each user's phone: the number on the icon of the closed app, and the alerts that it showed. A row has the newest version
-- that came; it is what makes late and repeated webhooks harmless.
CREATE TABLE IF NOT EXISTS phones (
  key     TEXT PRIMARY KEY REFERENCES users ON DELETE CASCADE,
  version TEXT NOT NULL,
  icon    INTEGER NOT NULL,
  alerts  INTEGER NOT NULL,
  alert   TEXT NOT NULL -- the last one
);

-- What was asked to be erased. It names nobody, and so it can stay as evidence.
CREATE TABLE IF NOT EXISTS erasures (
  name    TEXT PRIMARY KEY, -- as admin.erasure takes it
  done_at TEXT NOT NULL     -- '' while Tidings goes on
);

CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
