import { useEffect } from 'preact/hooks';
import { useLiveBoard, type Show } from '@tidings/client/react';
import { clicked } from './meter.ts';
import { Avatar, Empty, Failed, nameOf, readAgain, useHeld, Waiting } from './parts.tsx';
import type { View } from './view.ts';
import { useCell } from './store.ts';
import { ago, clock, countdown, useWords } from './words.ts';

/** Live is the board: live shows, then planned ones, then replays. Its order stands still while a finger holds it. */
export function Live({ connection, opened, tell }: View) {
  const words = useWords();
  const { nodes, loading, error, change, refresh, markSeen, hasNextPage, loadNext } = useLiveBoard({ first: 20 });
  const { ref, held } = useHeld<HTMLDivElement>();
  const above = change?.newAbove ?? 0;
  const other = (change?.wentLive.length ?? 0) + (change?.ended.length ?? 0) + (change?.scheduled.length ?? 0) + (change?.cancelled.length ?? 0) + (change?.rescheduled.length ?? 0);
  useEffect(() => {
    if (connection > 1) void refresh();
  }, [connection]);
  // A board that nobody holds follows by itself. One that could not be read is read again later.
  const behind = !held && !loading && above + other > 0;
  useEffect(() => {
    if (!behind) return undefined;
    if (!error) return void refresh();
    if (nodes.length === 0) return undefined; // Failed does it
    const timer = setTimeout(() => void refresh(), readAgain);
    return () => clearTimeout(timer);
  }, [behind, above, other, error]);
  useEffect(() => {
    if (error && nodes.length > 0) tell(error);
  }, [error]);
  const see = async () => {
    clicked();
    await refresh();
    ref.current?.scrollTo({ top: 0 });
    await markSeen().catch(tell);
  };
  // Whoever opens the board sees what is live now.
  useEffect(() => {
    if (opened > 0) void see();
  }, [opened]);
  return (
    <div class="view">
      {held && above + other > 0 && (
        <button type="button" class="pill" onClick={() => void see()}>
          {above > 0 ? words.newAbove(above) : words.boardChanged}
        </button>
      )}
      <div class="scroll board" ref={ref} tabIndex={0} role="group" aria-label={words.live}>
        {nodes.map((show) => (
          <Card key={show.id} show={show} />
        ))}
        {nodes.length === 0 && loading && !error && <Waiting label={words.loading} />}
        {nodes.length === 0 && error && <Failed icon="live" error={error} again={refresh} />}
        {nodes.length === 0 && !loading && !error && <Empty icon="live"><p>{words.noShows}</p></Empty>}
        {nodes.length > 0 && hasNextPage && <button type="button" class="plain older" disabled={loading} onClick={() => void loadNext()}>{words.loadMore}</button>}
      </div>
    </div>
  );
}

function Card({ show }: { show: Show }) {
  const words = useWords();
  const now = useCell(clock);
  const left = countdown(show.plannedAt, now);
  return (
    <article class={`show ${show.status.toLowerCase()}`} data-show={show.id} data-status={show.status}>
      <div class="cover" aria-hidden="true">
        <Avatar person={show.host} size={40} />
      </div>
      <div>
        <span class="status">
          {show.status === 'LIVE' && <b class="onair">{words.onAir}</b>}
          {show.status === 'UPCOMING' && <b class="tabular">{left ?? words.late}</b>}
          {show.status === 'REPLAY' && <b>{words.replay}</b>}
          {show.status === 'CANCELLED' && <b>{words.cancelled}</b>}
        </span>
        <h3>{show.title}</h3>
        <p class="muted">
          {nameOf(show.host)}
          {show.status === 'LIVE' && show.startedAt && ` · ${words.since(ago(show.startedAt, now))}`}
          {show.status === 'REPLAY' && show.endedAt && ` · ${words.ended(ago(show.endedAt, now))}`}
        </p>
      </div>
    </article>
  );
}
