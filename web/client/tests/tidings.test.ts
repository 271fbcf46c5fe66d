// createTidings against a server that does what servers do on bad days.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createTidings, createTokens, type TidingsOptions } from '@tidings/client';
import { acknowledge, ends, event, send, serve, type Handler, type Message } from './peer.js';
import { until } from './until.js';

const events = 'subscription E { homeFeedChanged { newPosts { value } } }';

/** refuse answers a subscription with an error. */
const refuse = (peer: Parameters<Handler>[0], { id }: Message, code: string, more: object = {}) =>
  send(peer, { id, type: 'error', payload: [{ message: code, extensions: { code, ...more } }] });

async function listen(handle: Handler, more: Partial<TidingsOptions> = {}) {
  const { options, ...peer } = await serve((socket, message, connection) => {
    acknowledge(socket, message, connection);
    if (message.type === 'subscribe') handle(socket, message, connection);
  });
  const tidings = createTidings({ ...options, ...more });
  ends.push(() => tidings.socket.dispose());
  const seen: unknown[] = [];
  const failed: any[] = [];
  const stop = tidings.listen(events, {}, ({ data }) => seen.push(data), (reason) => failed.push(reason));
  return { ...peer, tidings, seen, failed, stop };
}

for (const code of ['UNAVAILABLE', 'RATE_LIMITED', 'INTERNAL']) {
  test(`listen begins again after ${code}`, async () => {
    const { seen, failed, subscribes } = await listen((peer, message) =>
      subscribes.length === 1 ? refuse(peer, message, code) : send(peer, { id: message.id, type: 'next', payload: { data: {} } }),
    );
    await until(() => seen.length, (n) => n === 1, 'events');
    assert.deepEqual([failed, subscribes.length], [[], 2]);
  });
}

test('listen reports what is no use to ask again, once', async () => {
  const { failed, subscribes } = await listen((peer, message) => refuse(peer, message, 'FORBIDDEN'));
  await until(() => failed.length, (n) => n > 0, 'failures');
  assert.deepEqual([failed.map(([{ extensions }]) => extensions.code), subscribes.length], [['FORBIDDEN'], 1]);
});

test('listen begins again when the server has completed a subscription', async () => {
  const { seen, failed, subscribes } = await listen((peer, { id }) => {
    send(peer, { id, type: 'next', payload: { data: {} } });
    if (subscribes.length === 1) send(peer, { id, type: 'complete' });
  });
  await until(() => seen.length, (n) => n === 2, 'events');
  assert.deepEqual([failed, subscribes.length], [[], 2]);
});

test('badges go on when the server has completed their subscription', async () => {
  const { tidings, subscribes } = await listen((peer, { id, payload }) => {
    if (payload?.query === events) return;
    send(peer, { id, type: 'next', payload: event(`${subscribes.length}`) });
    if (subscribes.length < 4) send(peer, { id, type: 'complete' });
  });
  const versions: (string | undefined)[] = [];
  ends.push(tidings.badges.subscribe(() => versions.push(tidings.badges.get()?.version)));
  await until(() => versions, ({ length }) => length === 3, 'versions');
  assert.deepEqual(versions, ['2', '3', '4']);
});

test('badges say on the console that they are no longer pushed', async (t) => {
  const { tidings } = await listen((peer, message) => refuse(peer, message, 'FORBIDDEN'));
  const said = t.mock.method(console, 'error', () => {});
  ends.push(tidings.badges.subscribe(() => {}));
  await until(() => said.mock.callCount(), (n) => n === 1, 'words');
});

const bounds = { minWait: 60_000, maxWait: 240_000 };

/** waits keeps the timers that listen waits with. The others are shorter, or as long as a connection must last. */
function waits(t: TestContext) {
  const waiting = new Map<object, { wait: number; then: () => void }>();
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  t.mock.method(globalThis, 'setTimeout', ((then: () => void, wait: number) => {
    if (!(wait >= bounds.minWait) || wait === bounds.maxWait) return set(then, wait);
    const timer = {};
    waiting.set(timer, { wait, then });
    return timer;
  }) as never);
  t.mock.method(globalThis, 'clearTimeout', ((timer: object) => waiting.delete(timer) || clear(timer as never)) as never);
  t.mock.method(Math, 'random', () => 1);
  return waiting;
}

test('listen waits for as long as the server says, and longer each time', async (t) => {
  const waiting = waits(t);
  const { stop } = await listen((peer, message) => refuse(peer, message, 'RATE_LIMITED', { retryAfterMs: 90_000 }), bounds);
  for (const expected of [150_000, 210_000, 330_000, 330_000]) {
    const [[timer, { wait, then }]] = (await until(() => [...waiting], (all) => all.length === 1, 'waits')) as [[object, { wait: number; then: () => void }]];
    assert.equal(wait, expected);
    waiting.delete(timer);
    then();
  }
  stop();
});

test('nothing begins again once listening has stopped', async (t) => {
  const waiting = waits(t);
  const { stop, subscribes } = await listen((peer, message) => refuse(peer, message, 'UNAVAILABLE'), bounds);
  await until(() => waiting.size, (n) => n === 1, 'waits');
  stop();
  assert.deepEqual([waiting.size, subscribes.length], [0, 1]);
});

test('listen waits longer each time that the server completes a subscription', async (t) => {
  const waiting = waits(t);
  const { stop } = await listen((peer, { id }) => send(peer, { id, type: 'complete' }), bounds);
  for (const expected of [60_000, 120_000]) {
    const [[timer, { wait, then }]] = (await until(() => [...waiting], (all) => all.length === 1, 'waits')) as [[object, { wait: number; then: () => void }]];
    assert.equal(wait, expected);
    waiting.delete(timer);
    then();
  }
  await until(() => waiting.size, (n) => n === 0, 'waits');
  stop();
});

test('nothing begins again once the socket is disposed of', async (t) => {
  const waiting = waits(t);
  const { tidings, server, subscribes } = await listen((peer, message) => subscribes.length === 1 && refuse(peer, message, 'UNAVAILABLE'), bounds);
  await until(() => waiting.size, (n) => n === 1, 'waits');
  tidings.listen(events, {}, () => {}); // the server goes on with it
  await until(() => subscribes.length, (n) => n === 2, 'subscriptions');
  await tidings.socket.dispose();
  await until(() => server.clients.size, (n) => n === 0, 'connections');
  assert.deepEqual([waiting.size, subscribes.length], [0, 2]);
});

test('a listener that throws keeps nobody from an event, nor a request from its answer', async (t) => {
  const said = t.mock.method(console, 'error', () => {});
  const { tidings, seen, inits } = await listen(
    (peer, { id, payload }) => {
      const badges = payload?.query !== events;
      for (const version of ['1', '2']) send(peer, { id, type: 'next', payload: badges ? event(version) : { data: {} } });
    },
    { fetch: async () => Response.json({ data: { viewer: { badges: { id: 'badges:alice', version: '3' } } } }) },
  );
  const fail = () => {
    throw new Error('a fault of the application');
  };
  const heard: (string | undefined)[] = [];
  ends.push(tidings.badges.subscribe(fail), tidings.badges.subscribe(() => heard.push(tidings.badges.get()?.version)), tidings.listen(events, {}, fail));
  await until(() => [seen.length, heard.length, said.mock.callCount()].join(), (counts) => counts === '2,2,4', 'events');
  assert.equal((await tidings.request<{ viewer: object }>('{ viewer { badges { id version } } }')).errors, undefined);
  assert.deepEqual([heard, inits.length], [['1', '2', '3'], 1]);
});

test('where there is no WebSocket, as on a server that renders pages, a client asks and does not listen', async (t) => {
  const had = Object.getOwnPropertyDescriptor(globalThis, 'WebSocket');
  t.after(() => had && Object.defineProperty(globalThis, 'WebSocket', had));
  delete (globalThis as { WebSocket?: unknown }).WebSocket;
  const tidings = createTidings({ url: 'http://127.0.0.1:1/graphql', token: () => 'token', fetch: async () => good() });
  assert.equal((await tidings.request<{ viewer: { id: string } }>('{ viewer { id } }')).data?.viewer.id, 'viewer:alice');
  assert.equal(tidings.badges.get(), undefined);
  assert.throws(() => tidings.badges.subscribe(() => {}), /WebSocket/);
});

/** ask makes a client whose fetch answers from a list. */
function ask(token: TidingsOptions['token'], answers: Response[]) {
  const sent: (string | null)[] = [];
  const fetch: typeof globalThis.fetch = async (_url, init) => {
    sent.push(new Headers(init?.headers).get('authorization'));
    return answers.shift()!;
  };
  const tidings = createTidings({ url: 'http://127.0.0.1:1/graphql', token, webSocketImpl: WebSocketOfNobody, fetch });
  return { sent, request: () => tidings.request<{ viewer: { id: string } }>('{ viewer { id } }') };
}
class WebSocketOfNobody {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
}
const good = () => Response.json({ data: { viewer: { id: 'viewer:alice' } } });

test('a token that a gateway refuses without JSON is renewed', async () => {
  const { sent, request } = ask((renew) => (renew ? 'new' : 'old'), [new Response('<h1>401</h1>', { status: 401 }), good()]);
  assert.equal((await request()).data?.viewer.id, 'viewer:alice');
  assert.deepEqual(sent, ['Bearer old', 'Bearer new']);
});

test('a token that is refused twice is the answer', async () => {
  const refused = () => Response.json({ errors: [{ message: 'no', extensions: { code: 'UNAUTHENTICATED' } }] }, { status: 401 });
  const { sent, request } = ask((renew) => (renew ? 'new' : 'old'), [refused(), refused()]);
  assert.equal((await request()).errors?.[0]?.extensions?.code, 'UNAUTHENTICATED');
  assert.deepEqual(sent, ['Bearer old', 'Bearer new']);
});

test('a refused token is renewed once, also for requests that hear of it later', async () => {
  const asked: boolean[] = [];
  const tokens = createTokens((renew) => (asked.push(renew), `token-${asked.length}`));
  assert.equal(await tokens.get(), 'token-1');
  tokens.drop('token-1');
  assert.deepEqual(await Promise.all([tokens.get(), tokens.get(), tokens.get()]), ['token-2', 'token-2', 'token-2']);
  tokens.drop('token-1');
  assert.equal(await tokens.get(), 'token-2');
  assert.deepEqual(asked, [false, true]);
});

test('a renewal that fails is tried again, as a renewal', async () => {
  const asked: boolean[] = [];
  const tokens = createTokens(async (renew) => {
    asked.push(renew);
    if (asked.length === 2) throw new Error('the network is down');
    return `token-${asked.length}`;
  });
  tokens.drop(await tokens.get());
  await assert.rejects(tokens.get());
  assert.equal(await tokens.get(), 'token-3');
  assert.deepEqual(asked, [false, true, true]);
});
