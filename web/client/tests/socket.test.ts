// createSocket against a server that does what servers do on bad days.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { createSocket, type SocketOptions } from '@tidings/client';
import WebSocket, { WebSocketServer } from 'ws';
import { until } from './until.js';

interface Message {
  id?: string;
  type: string;
  payload?: { authorization?: string; device?: string; query?: string; variables?: Record<string, unknown> };
}

/** Handles a message of the nth connection, from 1. */
type Handler = (socket: WebSocket, message: Message, connection: number) => void;

const ends: (() => void)[] = [];
after(() => ends.forEach((end) => end()));

/** serve starts a server that acknowledges every connection, and answers a socket to it. */
async function serve(handler: Handler, options: Partial<SocketOptions> = {}) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const inits: Message['payload'][] = [];
  const subscribes: Message[] = [];
  let connections = 0;
  server.on('connection', (socket) => {
    const connection = ++connections;
    socket.on('message', (text) => {
      const message = JSON.parse(String(text)) as Message;
      if (message.type === 'connection_init') inits.push(message.payload);
      if (message.type === 'subscribe') subscribes.push(message);
      handler(socket, message, connection);
    });
  });
  const socket = createSocket({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`,
    token: () => 'token',
    webSocketImpl: WebSocket,
    minWait: 1,
    maxWait: 4,
    ...options,
  });
  ends.push(() => {
    void socket.dispose();
    for (const client of server.clients) client.terminate();
    server.close();
  });
  return { server, socket, inits, subscribes };
}

const send = (socket: WebSocket, message: object) => socket.send(JSON.stringify(message));
const acknowledge: Handler = (socket, { type }) => type === 'connection_init' && send(socket, { type: 'connection_ack' });
const event = (version: string, more: object = {}) => ({ data: { badgesChanged: { id: 'badges:alice', version }, ...more } });
const watch = 'subscription W($since: Version) { badgesChanged(since: $since) { id version } }';

function subscribe(socket: ReturnType<typeof createSocket>, query = watch, variables: Record<string, unknown> = {}) {
  const seen: unknown[] = [];
  const failed: unknown[] = [];
  const stop = socket.subscribe({ query, variables }, { next: ({ data }) => seen.push(data), error: (reason) => failed.push(reason), complete() {} });
  return { seen, failed, stop };
}

for (const code of [4401, 4403]) {
  test(`a token that is refused with ${code} is renewed, and the subscription goes on`, async () => {
    const asked: boolean[] = [];
    const { socket, inits } = await serve(
      (peer, message, connection) => {
        if (connection === 1) return peer.close(code);
        acknowledge(peer, message, connection);
        if (message.type === 'subscribe') send(peer, { id: message.id, type: 'next', payload: event('1') });
      },
      { token: (renew) => (asked.push(renew), `token-${asked.length}`), device: 'phone' },
    );
    const { seen, failed } = subscribe(socket);
    await until(() => seen.length, (n) => n === 1, 'events');
    assert.deepEqual(asked, [false, true]);
    assert.deepEqual(inits, [
      { authorization: 'Bearer token-1', device: 'phone' },
      { authorization: 'Bearer token-2', device: 'phone' },
    ]);
    assert.deepEqual(failed, []);
  });
}

test('a token is renewed before it expires, without a wait and without a refusal', async () => {
  const expiring = (seconds: number) => `h.${Buffer.from(JSON.stringify({ exp: Date.now() / 1000 + seconds })).toString('base64url')}.s`;
  const tokens = [expiring(0.2), expiring(3600)];
  const closes: number[] = [];
  const { socket, inits, subscribes } = await serve(acknowledge, {
    token: (renew) => tokens[renew ? 1 : 0]!,
    minWait: 60_000, // a wait would be longer than the test
    maxWait: 60_000,
    on: { closed: (event) => closes.push((event as { code: number }).code) },
  });
  const { failed } = subscribe(socket);
  await until(() => subscribes.length, (n) => n === 2, 'subscriptions');
  assert.deepEqual(inits.map((init) => init?.authorization), tokens.map((token) => `Bearer ${token}`));
  assert.deepEqual(closes, [4499]);
  assert.deepEqual(failed, []);
});

test('a subscription that is sent again asks for what is newer, and for its session', async () => {
  const { socket, subscribes } = await serve((peer, message, connection) => {
    acknowledge(peer, message, connection);
    if (message.type !== 'subscribe') return;
    const change = { liveBoardChanged: { sessionId: 'session-1', badges: { id: 'badges:alice', version: `${connection}` } } };
    send(peer, { id: message.id, type: 'next', payload: { data: change } });
    if (connection < 3) peer.close(1012);
  });
  const query = 'subscription W($sessionId: String, $since: Version) { liveBoardChanged(sessionId: $sessionId, since: $since) { sessionId } }';
  subscribe(socket, query);
  await until(() => subscribes.length, (n) => n === 3, 'subscriptions');
  assert.deepEqual(subscribes.map(({ payload }) => payload?.variables), [
    {},
    { since: '1', sessionId: 'session-1' },
    { since: '2', sessionId: 'session-1' },
  ]);
});

test('a subscription without $since is sent again as it was', async () => {
  const { socket, subscribes } = await serve((peer, message, connection) => {
    acknowledge(peer, message, connection);
    if (message.type !== 'subscribe') return;
    send(peer, { id: message.id, type: 'next', payload: event('1') });
    if (connection === 1) peer.terminate();
  });
  subscribe(socket, 'subscription { badgesChanged { id version } }', { other: 1 });
  await until(() => subscribes.length, (n) => n === 2, 'subscriptions');
  assert.deepEqual(subscribes[1]?.payload?.variables, { other: 1 });
});

test('a server that is not there is tried again until it is', async () => {
  const { server, socket } = await serve(acknowledge);
  const { port } = server.address() as AddressInfo;
  const { seen, failed } = subscribe(socket);
  await until(() => server.clients.size, (n) => n === 1, 'connections');
  for (const client of server.clients) client.terminate();
  server.close();
  await once(server, 'close');
  let refused = 0;
  socket.on('error', () => refused++);
  await until(() => refused, (n) => n > 3, 'refused connections');
  const again = new WebSocketServer({ port, host: '127.0.0.1' });
  ends.push(() => again.close(), () => again.clients.forEach((client) => client.terminate()));
  again.on('connection', (peer) =>
    peer.on('message', (text) => {
      const message = JSON.parse(String(text)) as Message;
      acknowledge(peer, message, 1);
      if (message.type === 'subscribe') send(peer, { id: message.id, type: 'next', payload: event('1') });
    }),
  );
  await until(() => seen.length, (n) => n === 1, 'events');
  assert.deepEqual(failed, []);
});

test('retries have a bound where one is set', async () => {
  const { socket, inits } = await serve((peer) => peer.close(1012), { retries: 3 });
  const { failed } = subscribe(socket);
  await until(() => failed.length, (n) => n === 1, 'failures');
  assert.equal((failed[0] as { code: number }).code, 1012);
  assert.equal(inits.length, 4);
});

test('waits double, differ and are bounded', async (t) => {
  const waits: number[] = [];
  t.mock.method(globalThis, 'setTimeout', ((then: () => void, wait: number) => (wait === 10_000 ? 0 : (waits.push(wait), queueMicrotask(then)))) as never);
  t.mock.method(globalThis, 'clearTimeout', () => {});
  let random = 0;
  t.mock.method(Math, 'random', () => random);
  class Refused {
    static readonly CONNECTING = 0;
    static readonly OPEN = 1;
    static readonly CLOSING = 2;
    static readonly CLOSED = 3;
    onclose?: (event: object) => void;
    constructor() {
      queueMicrotask(() => this.onclose?.({ code: 1006, reason: '' }));
    }
  }
  for (random of [0, 1]) {
    const socket = createSocket({ url: 'http://127.0.0.1:1/graphql', token: () => 'token', webSocketImpl: Refused, minWait: 100, maxWait: 500, retries: 5 });
    await new Promise((resolve) => socket.subscribe({ query: watch }, { next() {}, error: resolve, complete() {} }));
  }
  t.mock.restoreAll();
  assert.deepEqual(waits, [50, 100, 200, 250, 250, 100, 200, 400, 500, 500]);
});

test('a source of tokens that fails is asked again', async () => {
  let asked = 0;
  const { socket, subscribes } = await serve(acknowledge, {
    token: async () => {
      if (++asked < 3) throw new Error('the network is down');
      return 'token';
    },
  });
  const { failed } = subscribe(socket);
  await until(() => subscribes.length, (n) => n === 1, 'subscriptions');
  assert.equal(asked, 3);
  assert.deepEqual(failed, []);
});

test('a connection that is silent is left for another', async () => {
  const { socket, subscribes } = await serve(
    (peer, message, connection) => {
      acknowledge(peer, message, connection);
      if (connection > 1 && message.type === 'ping') send(peer, { type: 'pong' });
    },
    { keepAlive: 20, pongWait: 20 },
  );
  subscribe(socket);
  await until(() => subscribes.length, (n) => n === 2, 'subscriptions');
});

test('a subscription that is refused ends with the errors, and is not sent again', async () => {
  const { socket, subscribes } = await serve((peer, message, connection) => {
    acknowledge(peer, message, connection);
    if (message.type === 'subscribe') send(peer, { id: message.id, type: 'error', payload: [{ message: 'no' }] });
  });
  const { failed } = subscribe(socket);
  await until(() => failed.length, (n) => n === 1, 'failures');
  assert.deepEqual(failed, [[{ message: 'no' }]]);
  assert.equal(subscribes.length, 1);
});
