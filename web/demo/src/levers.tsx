import type { BadgeCount } from '@tidings/client';
import { useEffect, useState } from 'preact/hooks';
import { reachable } from './foot.tsx';
import type { Phone } from './link.ts';
import { note, sentOperations } from './log.ts';
import { clicked, unclicked } from './meter.ts';
import { HOST, page, VIEWER } from './page.ts';
import { Cell, useCell } from './store.ts';
import { useWords, type Words } from './words.ts';

/** An event of ingest: somebody does something. */
interface Event {
  readonly as?: string;
  readonly do: Record<string, object>;
}
interface Result {
  readonly id: string | null;
  readonly error: { readonly message: string } | null;
}

const ingest = 'mutation Ingest($events: [IngestEvent!]!) { ingest(events: $events) { results { id error { code message } } } }';

/** What the levers have to say. gone: no server answered, which is over once one does. */
export const said = new Cell<{ text?: string; bad?: boolean; gone?: boolean } | undefined>(undefined);

/** ask sends one operation with a token of development. */
async function ask<Data>(token: string, query: string, variables: object): Promise<Data> {
  const response = await fetch(page.endpoint, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({ query, variables }),
  });
  const { data, errors } = (await response.json()) as { data?: Data; errors?: { message: string }[] };
  if (!data) throw new Error(errors?.[0]?.message ?? String(response.status));
  return data;
}

/** tellServer reports events, as a host application does. A quiet report is not shown in the drawer. */
async function tellServer(events: readonly Event[], quiet = false): Promise<readonly Result[]> {
  const answered = quiet ? undefined : note({ by: 'host', push: false, query: ingest, variables: { events }, token: HOST });
  const data = await ask<{ ingest: { results: readonly Result[] } }>(HOST, ingest, { events });
  answered?.(data);
  const refused = data.ingest.results.find(({ error }) => error);
  if (refused?.error) throw new Error(refused.error.message);
  return data.ingest.results;
}

const user = (key: string) => `user:${key}`;
const viewer = user(VIEWER);
const ben = user('ben');

/** cast makes sure of Mia and Ben, for a server without the demo world. Repeating it changes nothing. */
let made: Promise<unknown> | undefined;
function cast(): Promise<unknown> {
  made ??= tellServer(
    [
      { as: viewer, do: { setProfile: { name: 'Mia' } } },
      { as: ben, do: { setProfile: { name: 'Ben' } } },
      { as: viewer, do: { follow: { userId: ben } } },
    ],
    true,
  ).catch((reason: unknown) => {
    made = undefined;
    throw reason;
  });
  return made;
}

const lines = ['Who wants the last slice?', 'The sun is out. Everybody outside!', 'I have news. Good ones.', 'Look what the sea brought in.', 'Tonight, eight, my place.', 'I cannot stop watching the snow.'];
let line = 0;

export async function postAsBen(): Promise<void> {
  clicked();
  await tellServer([{ as: ben, do: { publishPost: { body: lines[line++ % lines.length]! } } }]);
}

const fans = 500;
const batches = 10; // a tenth of a second each
const firstNames = 'Ada Bao Clara Diego Elif Femi Greta Hugo Ines Jin Kaya Lars Mei Nils Olga Paul Quinn Rosa Sven Tara Uma Vera Wei Yara Zoe'.split(' ');
let fansNamed = false;

const fan = (number: number) => user(`fan-${number + 1}`);

/** nameFans gives those who like their names, before the first time that they like something. */
async function nameFans(): Promise<void> {
  if (fansNamed) return;
  const name = (number: number) => `${firstNames[number % firstNames.length]} ${String.fromCharCode(65 + Math.floor(number / firstNames.length))}.`;
  await tellServer(Array.from({ length: fans }, (_, number) => ({ as: fan(number), do: { setProfile: { name: name(number) } } })), true);
  fansNamed = true;
}

async function likes(words: Words): Promise<void> {
  await nameFans();
  const [post] = await tellServer([{ as: viewer, do: { publishPost: { body: 'My first loaf of bread.' } } }], true);
  const began = performance.now();
  clicked();
  const like = async (batch: number) => {
    await new Promise((resolve) => setTimeout(resolve, (batch * 1000) / batches));
    const size = fans / batches;
    await tellServer(Array.from({ length: size }, (_, i) => ({ as: fan(batch * size + i), do: { likePost: { postId: post!.id! } } })), batch > 0);
  };
  await Promise.all(Array.from({ length: batches }, (_, batch) => like(batch)));
  said.set({ text: words.stormed(fans, Math.round(performance.now() - began)) });
}

let onAir: string | undefined;

async function goLive(): Promise<void> {
  const plan = new Date(Date.now() + 60_000).toISOString();
  const [show] = await tellServer([{ as: ben, do: { scheduleShow: { title: 'Ben, live and unprepared', plannedAt: plan } } }], true);
  const former = onAir;
  onAir = show!.id!;
  clicked();
  await tellServer([...(former ? [{ as: ben, do: { endShow: { showId: former } } }] : []), { as: ben, do: { startShow: { showId: onAir } } }]);
}

let group: string | undefined;

async function saySomething(): Promise<void> {
  if (!group) {
    type Talk = { id: string; kind: string; members: { nodes: { key: string }[] } };
    const data = await ask<{ viewer: { conversations: { nodes: Talk[] } } }>(`dev:${VIEWER}`, 'query Talks { viewer { id conversations(first: 20) { nodes { id kind members(first: 100) { nodes { id key } } } } } }', {});
    group = data.viewer.conversations.nodes.find(({ kind, members }) => kind === 'GROUP' && members.nodes.some(({ key }) => key === 'ben'))?.id;
  }
  if (!group) {
    const [created] = await tellServer([{ as: ben, do: { createConversation: { kind: 'GROUP', title: 'Climbing on Thursday', memberIds: [viewer] } } }], true);
    group = created!.id!;
  }
  clicked();
  await tellServer([{ as: ben, do: { sendMessage: { conversationId: group, body: ['Who is in?', 'On my way', 'I have the rope', 'Bring water', 'See you there'][line++ % 5]! } } }]);
}

async function announce(): Promise<void> {
  clicked();
  await tellServer([{ do: { publishAnnouncement: { title: `News, ${new Date().toLocaleTimeString()}`, content: 'To everybody at once: one row in SQL, whatever the number of users.' } } }]);
}

async function raiseDot(): Promise<void> {
  clicked();
  await tellServer([{ do: { raiseDot: { name: 'whats-new' } } }]);
}

/** forgetServer forgets what was made on a server that did not answer: the next one can be another. */
function forgetServer(): void {
  group = onAir = made = undefined;
  fansNamed = false;
}

/** act pulls a lever on a world that may be empty, and says what went wrong. */
export async function act(lever: () => Promise<void>): Promise<void> {
  said.set(undefined);
  try {
    await cast();
    await lever();
  } catch (reason) {
    forgetServer();
    // What fetch says of a server that is not there is the browser's own, in its own language.
    said.set(reason instanceof TypeError ? { gone: true } : { text: reason instanceof Error ? reason.message : String(reason), bad: true });
  }
}

/** Whether Redis was emptied and the numbers are not known to be right again. */
export const shaken = new Cell(false);

const exact = 'query Total { viewer { id badges { id version total { value display inTotal precision asOf } } } }';

const longestRebuild = 20_000; // milliseconds

async function flush(phone: Phone, words: Words): Promise<void> {
  // The people hold still at once, and Redis is emptied after 300 ms.
  const held: { total?: BadgeCount; sent?: number } = {};
  setTimeout(() => Object.assign(held, { total: phone.tidings.badges.get()?.total, sent: sentOperations() }), 250);
  const response = await fetch('/demo/flush', { method: 'POST', headers: { 'Tidings-Demo': 'flush' } });
  if (!response.ok) throw new Error(words.flushFailed);
  const { keys } = (await response.json()) as { keys: number };
  const before = held.total;
  const began = performance.now();
  unclicked(); // what is pushed now is rebuilt
  shaken.set(true);
  said.set({ text: words.flushed(keys) });
  try {
    for (;;) {
      const data = await ask<{ viewer: { badges: { total: { value: number | null; display: string; precision: string } } } }>(`dev:${VIEWER}`, exact, {});
      const { value, display, precision } = data.viewer.badges.total;
      const ms = Math.round(performance.now() - began);
      const back = precision === 'EXACT' || (precision === before?.precision && value === before.value);
      if (back || ms > longestRebuild) {
        // Long enough to be seen.
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, 900 - ms)));
        if (value === before?.value) said.set({ text: words.equal(String(value), ms) });
        else if (sentOperations() !== held.sent) said.set({ text: words.alsoYours(String(before?.value), display) });
        else said.set({ text: words.unequal(String(before?.value), display), bad: true });
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
  } finally {
    shaken.set(false);
  }
}

/** Levers are what the visitor can make happen. */
export function Levers({ phones }: { phones: readonly [Phone, Phone] }) {
  const words = useWords();
  const report = useCell(said);
  const right = useCell(phones[1].state);
  const [cut, setCut] = useState(false);
  const [busy, setBusy] = useState<string>();
  const here = useCell(reachable);
  useEffect(() => {
    if (!here) forgetServer();
    else if (said.get()?.gone) said.set(undefined);
  }, [here]);
  const pull = async (name: string, lever: () => Promise<void>) => {
    setBusy(name);
    await act(lever);
    setBusy(undefined);
  };
  const production = page.mode === 'production';
  const levers: [string, string, () => Promise<void>][] = [
    ['post', words.leverPost, postAsBen],
    ['likes', words.leverLikes, () => likes(words)],
    ['live', words.leverLive, goLive],
    ['say', words.leverSay, saySomething],
    ['announce', words.leverAnnounce, announce],
    ['dot', words.leverDot, raiseDot],
  ];
  return (
    <section class="levers" id="levers" aria-label={words.levers}>
      <div class="row-of-levers">
        {!production && levers.map(([name, label, lever]) => (
          <button key={name} type="button" class="lever" data-lever={name} aria-busy={busy === name} onClick={() => busy !== name && void pull(name, lever)}>{label}</button>
        ))}
        <button type="button" class={`lever${cut ? ' on' : ''}`} data-lever="cut" aria-pressed={cut} data-state={right} onClick={() => (phones[1].cut(!cut), setCut(!cut))}>{cut ? words.leverMend : words.leverCut}</button>
        {!production && (
          <button type="button" class="lever danger" data-lever="flush" disabled={page.mode !== 'demo'} title={page.mode === 'demo' ? undefined : words.flushOnlyDemo} aria-busy={busy === 'flush'}
            onClick={() => busy !== 'flush' && void pull('flush', () => flush(phones[0], words))}>{words.leverFlush}</button>
        )}
      </div>
      {production && <p class="muted">{words.leversProduction}</p>}
      {page.mode === 'development' && <p class="muted">{words.flushOnlyDemo}</p>}
      <p class={`said${report?.bad || report?.gone ? ' bad' : ''}`} role="status">{report?.gone ? words.notSent : report?.text ?? ''}</p>
    </section>
  );
}
