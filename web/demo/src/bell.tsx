import { useEffect, useState } from 'preact/hooks';
import { BADGES } from '@tidings/client';
import { useNotifications, useTidings, type Notification } from '@tidings/client/react';
import { clicked } from './meter.ts';
import { Avatar, Empty, Failed, Icon, nameOf, Waiting } from './parts.tsx';
import type { View } from './view.ts';
import { useCell } from './store.ts';
import { ago, clock, useWords, type Words } from './words.ts';

// The rows themselves are read by the hook; the subscription gives each push its time.
const watch = `subscription WatchNotifications($since: Version) { notificationsChanged(first: 1, since: $since) { notifications { nodes { id category actorCount at } } badges { ...TidingsBadges } } } ${BADGES}`;

/** Bell is the list of notifications, grouped. */
export function Bell({ connection, opened, shown, tell }: View) {
  const words = useWords();
  const now = useCell(clock);
  const tidings = useTidings();
  const { nodes, loading, error, hasNew, refresh, markSeen, markRead, hasNextPage, loadNext } = useNotifications({ first: 20 });
  const [changes, setChanges] = useState(0);
  useEffect(() => tidings.listen(watch, { since: null }, () => setChanges((count) => count + 1), () => undefined), [tidings]);
  useEffect(() => {
    if (connection > 1) void refresh();
  }, [connection]);
  // A list that nobody looks at is kept fresh; one on the screen does not move by itself.
  useEffect(() => {
    if (changes > 1 && !shown) void refresh();
  }, [changes, shown]);
  const see = async () => {
    clicked();
    await refresh();
    await markSeen().catch(tell);
  };
  // Whoever opens the list sees all of it: what has arrived until now is read first.
  useEffect(() => {
    if (opened > 0) void see();
  }, [opened]);
  return (
    <div class="view">
      {hasNew && shown && (
        <button type="button" class="pill" onClick={() => void see()}>
          {words.newRows}
        </button>
      )}
      <div class="scroll" tabIndex={0} role="group" aria-label={words.bell}>
        <ul class="rows">
          {nodes.map((row) => (
            <li key={row.id}>
              <button type="button" class={`row${row.read ? '' : ' unread'}`} onClick={() => void (clicked(), markRead([row.id]).catch(tell))}>
                <span class="faces big">
                  {row.actors.slice(0, 3).map((actor) => <Avatar key={actor.key} person={actor} size={28} />)}
                  {row.actors.length === 0 && <span class="avatar by-host"><Icon name="megaphone" size={16} /></span>}
                </span>
                <span class="text">
                  <span>{sentence(row, words)}</span>
                  <small>
                    {row.hostCategory && `${row.hostCategory} · `}
                    {row.subject ? `“${row.subject.body}” · ` : row.show ? `${row.show.title} · ` : ''}
                    <time dateTime={row.at}>{ago(row.at, now)}</time>
                  </small>
                </span>
                {!row.read && <span class="sr">{words.unreadRow}</span>}
              </button>
            </li>
          ))}
        </ul>
        {nodes.length === 0 && loading && !error && <Waiting label={words.loading} />}
        {nodes.length === 0 && error && <Failed icon="bell" error={error} again={refresh} />}
        {nodes.length === 0 && !loading && !error && <Empty icon="bell"><p>{words.noRows}</p></Empty>}
        {nodes.length > 0 && hasNextPage && <button type="button" class="plain older" disabled={loading} onClick={() => void loadNext()}>{words.loadMore}</button>}
      </div>
    </div>
  );
}

/** sentence says a row: "Ben, Lea and 3 others liked your post", or what the host application told, in its own words. */
export function sentence({ category, title, body, actors, actorCount }: Pick<Notification, 'category' | 'title' | 'body' | 'actors' | 'actorCount'>, words: Words) {
  if (title) return <><b>{title}</b> {body}</>;
  const named = actors.slice(0, 2).map(nameOf);
  const rest = actorCount - named.length;
  const verb = { LIKE: words.liked, COMMENT: words.commented, MENTION: words.mentioned, FOLLOW: actorCount > 1 ? words.followed : words.followedOne, REMINDER: words.reminded }[category] ?? category;
  const comma = words.and === 'and' ? ', ' : '、';
  const who = rest > 0 ? `${named.join(comma)} ${words.and} ${words.others(rest)}` : named.join(` ${words.and} `);
  return <><b>{who}</b> {verb}</>;
}
