// useLiveBoard against a real server.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { useLiveBoard, type Show } from '@tidings/client/react';
import WebSocket from 'ws';
import { textOf } from './documents.js';
import { ends, follow, others, render, server } from './hooks.js';
import { Server } from './server.js';
import { until } from './until.js';

test('useLiveBoard keeps its order while a show goes live', async () => {
  const ids: string[] = [];
  for (let i = 0; i < 3; i++) {
    const input = { title: `Show ${i}`, plannedAt: new Date(Date.now() + (i + 1) * 3_600_000).toISOString() };
    const { scheduleShow } = await server.ask(`host-${i}`, 'mutation S($input: ScheduleShowInput!) { scheduleShow(input: $input) { show { id } } }', { input });
    ids.push(scheduleShow.show.id);
    await follow('watcher', `host-${i}`);
  }
  await until(async () => (await server.ask('watcher', textOf('TidingsBoardQuery'), { first: 100 })).viewer.liveBoard.edges.length, (n) => n === 3, 'shows arrive');
  const { now, all, tidings } = await render('watcher', () => useLiveBoard({ first: 2 }));
  ends.push(tidings.badges.subscribe(() => {}));
  await until(now, ({ nodes }) => nodes.length === 2, 'the first page is not there');
  await server.ask('host-1', 'mutation S($input: StartShowInput!) { startShow(input: $input) { show { status } } }', { input: { showId: ids[1] } });
  await until(now, ({ change }) => change?.wentLive[0]?.id === ids[1], 'the show does not go live');
  await now().loadNext();
  await until(now, ({ nodes }) => nodes.length === 3, 'the next page is not there');
  assert.deepEqual(now().nodes.map(({ id }) => id), ids);
  assert.deepEqual(now().nodes.map(({ status }) => status), ['UPCOMING', 'LIVE', 'UPCOMING']);
  assert.equal(now().change?.newAbove, 1);
  const { refresh, markSeen } = now(); // of one render, as a button has them
  await refresh().then(markSeen);
  assert.equal(tidings.badges.get()?.liveBoard.value, 0);
  await until(() => now().nodes.map(({ id }) => id), (shown) => shown.join() === [ids[1], ids[0]].join(), 'the board is not the new one');
  for (const { change, page } of all) assert.ok(!change || change.sessionId === page?.sessionId, 'the change is of another board than the one that is shown');
});

test('useLiveBoard begins anew on a server that does not know its session', async () => {
  const other = await Server.start();
  others.push(other);
  const schedule = async (title: string): Promise<string> => {
    const input = { title, plannedAt: new Date(Date.now() + 3_600_000).toISOString() };
    const { scheduleShow } = await other.ask('host', 'mutation S($input: ScheduleShowInput!) { scheduleShow(input: $input) { show { id } } }', { input });
    await other.ask('watcher', 'mutation { follow(input: { userId: "user:host" }) { changed } }');
    return scheduleShow.show.id;
  };
  for (let i = 0; i < 5; i++) await schedule(`Show ${i}`);
  const { now } = await render('watcher', useLiveBoard, other.url);
  await until(now, ({ nodes }) => nodes.length === 5, 'the board is not there');
  await other.kill();
  other.forget();
  await other.restart();
  const id = await schedule('Another');
  await until(now, ({ nodes }) => nodes.length === 1 && nodes[0]!.id === id, 'the board is not that of the other server');
  await other.ask('host', 'mutation S($input: StartShowInput!) { startShow(input: $input) { show { status } } }', { input: { showId: id } });
  await until(now, ({ nodes }) => nodes[0]?.status === 'LIVE', 'the board is not watched');
});

/** sharing starts a server on which a new first page ends the session of the page before, and schedules shows of a host each. */
async function sharing() {
  const shared = await Server.start(['--board-sessions', 'user']);
  others.push(shared);
  const ids: string[] = [];
  for (let i = 0; i < 3; i++) {
    const input = { title: `Show ${i}`, plannedAt: new Date(Date.now() + (i + 1) * 3_600_000).toISOString() };
    const { scheduleShow } = await shared.ask(`host-${i}`, 'mutation S($input: ScheduleShowInput!) { scheduleShow(input: $input) { show { id } } }', { input });
    ids.push(scheduleShow.show.id);
    await shared.ask('watcher', 'mutation F($id: ID!) { follow(input: { userId: $id }) { changed } }', { id: `user:host-${i}` });
  }
  const board = async (): Promise<any[]> => (await shared.ask('watcher', textOf('TidingsBoardQuery'), { first: 100 })).viewer.liveBoard.edges;
  await until(board, ({ length }) => length === 3, 'shows arrive');
  const start = (i: number) => shared.ask(`host-${i}`, 'mutation S($id: ID!) { startShow(input: { showId: $id }) { show { status } } }', { id: ids[i] });
  return { url: shared.url, ids, board, start };
}

test('useLiveBoard shows a board as a whole when a later page is of another session', async () => {
  const { url, ids, board, start } = await sharing();
  class Unwatched extends WebSocket {
    override send(data: string) {
      if (!data.includes('WatchBoard')) super.send(data);
    }
  }
  const { now } = await render('watcher', () => useLiveBoard({ first: 2 }), url, { webSocketImpl: Unwatched });
  await until(now, ({ nodes }) => nodes.length === 2, 'the first page is not there');
  await start(1);
  await until(board, ([first]) => first.node.id === ids[1], 'the show is not live'); // its pages end the session of the hook
  await now().loadNext();
  const shown = () => now().nodes.map(({ id, status }) => `${id} ${status}`).join();
  await until(shown, (rows) => rows === `${ids[1]} LIVE,${ids[0]} UPCOMING`, 'the rows are of several boards');
});

test('useLiveBoard keeps the present state of its rows until it has read the board of a new session', async () => {
  const { url, ids, board, start } = await sharing();
  let broken = false;
  let refused = 0;
  const failing: typeof fetch = async (...asked) => {
    if (!broken) return fetch(...asked);
    refused++;
    throw new TypeError('no network');
  };
  const { now, all } = await render('watcher', useLiveBoard, url, { fetch: failing });
  await until(now, ({ nodes }) => nodes.length === 3, 'the board is not there');
  const status = ({ nodes }: { nodes: readonly Show[] }) => nodes.find(({ id }) => id === ids[1])?.status;
  await start(1);
  await until(() => status(now()), (is) => is === 'LIVE', 'the show does not go live');
  const before = all.length;
  broken = true;
  await board(); // the first page of another device
  await start(2); // and an event that says so
  await until(() => refused, (n) => n > 1, 'the board is not asked for again');
  broken = false;
  await until(() => now().nodes.map(({ id }) => id).join(), (shown) => shown === [ids[2], ids[1], ids[0]].join(), 'the board is not the new one');
  for (const shown of all.slice(before)) assert.equal(status(shown), 'LIVE');
});
