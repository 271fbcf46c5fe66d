import { useEffect, useRef } from 'preact/hooks';
import { useCell } from '../demo/src/store.ts';
import { count, lines } from './difference.ts';
import { open, remove, watches, type Entry, type State, type Watch } from './watch.ts';

const said: Record<State, string> = {
  connecting: 'connecting',
  live: 'live',
  lost: 'reconnecting',
  stopped: 'stopped',
  refused: 'refused',
  ended: 'ended',
};

const clock = (at: Date) => at.toLocaleTimeString('en-GB') + `.${String(at.getMilliseconds()).padStart(3, '0')}`;

/** Told is an event in one line: what changed. */
function Told({ entry }: { entry: Entry }) {
  const { answer, changes } = entry;
  if (answer?.errors) return <span class="what wrong">{answer.errors.map(({ message }) => message).join(' ')}</span>;
  if (!changes) return <span class="what">as it is now: {count(answer?.data)} values</span>;
  if (changes.first.length === 0) return <span class="what">the same again</span>;
  return (
    <span class="what">
      {changes.first.map(({ name, before, after }) => <span key={name}>{name} {before} → <b>{after}</b></span>)}
      {changes.more > 0 && <span>and {changes.more} more</span>}
    </span>
  );
}

function Row({ entry }: { entry: Entry }) {
  const time = <time dateTime={entry.at.toISOString()}>{clock(entry.at)}</time>;
  if (!entry.answer) return <li class="note">{time} <span class="what">{entry.note}</span></li>;
  return (
    <li>
      <details open={!entry.changed}>
        <summary>{time} <Told entry={entry} /></summary>
        <pre tabIndex={0} aria-label="The event">
          {lines(entry.answer, '').map(({ path, text }, at) => (entry.changed?.has(path) ? <mark key={at}>{text}{'\n'}</mark> : `${text}\n`))}
        </pre>
      </details>
    </li>
  );
}

function Card({ watch }: { watch: Watch }) {
  const state = useCell(watch.state);
  const entries = useCell(watch.entries);
  const events = entries.filter(({ answer }) => answer).length;
  const { name } = watch.subject;
  return (
    <section class="watch" data-watch={name} data-state={state} aria-label={`${name} as ${watch.who}`}>
      <header>
        <span class={`dot ${state}`} aria-hidden="true" />
        <h2 title={name}>{name}</h2>
        <span class="as">as {watch.who}, {said[state]}, {events} {events === 1 ? 'event' : 'events'}</span>
        <span class="does">
          {watch.running()
            ? <button type="button" onClick={() => watch.stop()} aria-label={`Stop ${name}`}>Stop</button>
            : <button type="button" onClick={() => watch.start()} aria-label={`Start ${name}`}>Start</button>}
          <button type="button" onClick={() => watch.clear()} aria-label={`Clear the events of ${name}`}>Clear</button>
          <button type="button" class="close" onClick={() => remove(watch)} aria-label={`Close ${name}`}>×</button>
        </span>
      </header>
      <div class="log" role="log" aria-label={`Events of ${name}, the newest first`} tabIndex={0}>
        <ol>
          {entries.map((entry) => <Row key={entry.id} entry={entry} />)}
          {entries.length === 0 && <li class="note"><span class="what">No events yet.</span></li>}
        </ol>
      </div>
    </section>
  );
}

/** Watches is the pane of all watches, side by side. */
export function Watches() {
  const all = useCell(watches);
  const shown = useCell(open);
  const row = useRef<HTMLDivElement>(null);
  useEffect(() => row.current?.lastElementChild?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [all.length]);
  if (!shown) return null;
  return (
    <aside id="watches" aria-label="Watches">
      <div class="row" ref={row}>
        {all.map((watch) => <Card key={watch.id} watch={watch} />)}
        {all.length === 0 && (
          <p class="none">Nothing is watched. Run a subscription, such as <em>WatchMyBadges</em>: its events arrive here, and go on arriving while you use other tabs.</p>
        )}
      </div>
    </aside>
  );
}
