// createSocket against a server that does what servers do on bad days.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { createSocket, createTidings, createTokens, type SocketOptions } from '@tidings/client';
import WebSocket, { WebSocketServer } from 'ws';
import { acknowledge, connect, ends, event, send, watch, type Message } from './peer.js';
import { until } from './until.js';

function subscribe(socket: ReturnType<typeof createSocket>, query = watch, variables: Record<string, unknown> = {}) {
  const seen: unknown[] = [];
  const failed: unknown[] = [];
  const stop = socket.subscribe({ query, variables }, { next: ({ data }) => seen.push(data), error: (reason) => failed.push(reason), complete() {} });
  return { seen, failed, stop };
}

const expiring = (seconds: number) => `h.${Buffer.from(JSON.stringify({ exp: Date.now() / 1000 + seconds })).toString('base64url')}.s`;

for (const code of [4401, 4403]) {
  test(`a token that is refused with ${code} is renewed, and the subscription goes on`, async () => {
    const asked: boolean[] = [];
    const { socket, inits } = await connect(
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

// graphql-ws itself gives up after most of these.
for (const code of [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 4429, 4500]) {
  test(`a connection that is closed with ${code} is made again`, async () => {
    const { socket, inits } = await connect((peer, message, connection) => {
      acknowledge(peer, message, connection);
      if (message.type !== 'subscribe') return;
      if (connection === 1) peer.close(code);
      else send(peer, { id: message.id, type: 'next', payload: event('1') });
    });
    const { seen, failed } = subscribe(socket);
    await until(() => [...seen, ...failed].length, (n) => n === 1, 'the event');
    assert.deepEqual([seen.length, failed, inits.length], [1, [], 2]);
  });
}

for (const code of [4400, 4406, 4409]) {
  test(`subscriptions end when the client is at fault, which is ${code}`, async () => {
    const { socket, inits } = await connect((peer, message, connection) => {
      acknowledge(peer, message, connection);
      if (message.type === 'subscribe') peer.close(code);
    });
    const { failed } = subscribe(socket);
    await until(() => failed.length, (n) => n === 1, 'failures');
    assert.deepEqual([(failed[0] as { code: number }).code, inits.length], [code, 1]);
  });
}

test('a name of a device that the server refuses is an error at once', () => {
  const options = { url: 'http://127.0.0.1:1/graphql', token: () => 'token', webSocketImpl: WebSocket };
  for (const device of ['a', '0', 'My_phone-2.1', crypto.randomUUID(), 'x'.repeat(64)]) void createSocket({ ...options, device }).dispose();
  for (const device of ['', 'my phone', 'a/b', 'a:b', 'téléphone', 'phone\n', 'x'.repeat(65)]) {
    const message = `device: 1 to 64 letters, digits, '.', '_' and '-' are allowed, got ${JSON.stringify(device)}`;
    for (const create of [createSocket, createTidings]) assert.throws(() => create({ ...options, device }), { message });
  }
});

test('a token is renewed before it expires, without a wait and without a refusal', async (t) => {
  const now = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => 1000 * now()); // so that the first connection lasts for long
  const tokens = [expiring(0.2), expiring(3600)];
  const closes: number[] = [];
  const { socket, inits, subscribes } = await connect(acknowledge, {
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
  const { socket, subscribes } = await connect((peer, message, connection) => {
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
  const { socket, subscribes } = await connect((peer, message, connection) => {
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
  const { server, socket } = await connect(acknowledge);
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
  const { socket, inits } = await connect((peer) => peer.close(1012), { retries: 3 });
  const { failed } = subscribe(socket);
  await until(() => failed.length, (n) => n === 1, 'failures');
  assert.equal((failed[0] as { code: number }).code, 1012);
  assert.equal(inits.length, 4);
});

/** A WebSocket whose server does nothing but what a test tells it. */
class Puppet {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  static last: Puppet;
  readyState = Puppet.OPEN;
  onopen?: () => void;
  onmessage?: (event: { data: string }) => void;
  onclose?: (event: { code: number; reason: string }) => void;
  constructor() {
    Puppet.last = this;
  }
  send() {}
  close(code: number) {
    this.onclose?.({ code, reason: '' });
  }
}

/** puppets makes a socket of puppets, and keeps its timers. */
function puppets(t: TestContext, more: Partial<SocketOptions>) {
  const timers = new Map<object, { wait: number; then: () => void }>();
  const settled = () => new Promise(setImmediate);
  t.mock.method(globalThis, 'setTimeout', ((then: () => void, wait: number) => {
    const timer = {};
    timers.set(timer, { wait, then });
    return timer;
  }) as never);
  t.mock.method(globalThis, 'clearTimeout', ((timer: object) => timers.delete(timer)) as never);
  const failed: unknown[] = [];
  const options = { url: 'http://127.0.0.1:1/graphql', token: () => 'token', webSocketImpl: Puppet, keepAlive: 0, minWait: 100, maxWait: 500, ...more };
  const socket = createSocket(options);
  const stops: (() => void)[] = [];
  const subscribe = (variables = {}) => stops.push(socket.subscribe({ query: watch, variables }, { next() {}, error: (reason) => failed.push(reason), complete() {} }));
  subscribe();
  return {
    failed,
    subscribe,
    unsubscribe: () => stops.forEach((stop) => stop()),
    async acknowledge() {
      await settled();
      Puppet.last.onopen?.();
      await settled();
      Puppet.last.onmessage?.({ data: '{"type":"connection_ack"}' });
      await settled();
    },
    async close(code: number) {
      await settled();
      Puppet.last.close(code);
      await settled();
    },
    receive: (message: Message) => Puppet.last.onmessage?.({ data: JSON.stringify(message) }),
    /** fire ends the waits, or those of at most so many milliseconds, and answers how long they were. */
    async fire(longest = Infinity) {
      const due = [...timers].filter(([, { wait }]) => wait <= longest).map(([timer, of]) => (timers.delete(timer), of));
      for (const { then } of due) then();
      await settled();
      return due.map(({ wait }) => wait);
    },
  };
}

for (const [random, expected] of [[0, [50, 100, 200, 250, 250]], [1, [100, 200, 400, 500, 500]]] as const) {
  test(`waits double, differ and are bounded, at ${random} of their range`, async (t) => {
    t.mock.method(Math, 'random', () => random);
    const peer = puppets(t, { retries: 5 });
    for (const wait of expected) {
      await peer.close(1006);
      assert.deepEqual(await peer.fire(), [wait]);
    }
    await peer.close(1006);
    assert.equal(peer.failed.length, 1);
  });
}

test('waits go on doubling when connections are acknowledged and closed, and begin anew after one that held', async (t) => {
  t.mock.method(Math, 'random', () => 1);
  const peer = puppets(t, {});
  for (const wait of [100, 200, 400, 500]) {
    await peer.acknowledge();
    await peer.close(4429);
    assert.deepEqual(await peer.fire(), [wait]);
  }
  await peer.acknowledge();
  assert.deepEqual(await peer.fire(), [500], 'it holds for as long as the longest wait');
  for (const wait of [100, 200]) {
    await peer.close(1006);
    assert.deepEqual(await peer.fire(), [wait]);
  }
});

test('connections that are acknowledged and closed count as failures in a row', async (t) => {
  const peer = puppets(t, { retries: 2 });
  for (let i = 0; i < 3; i++) {
    assert.deepEqual(peer.failed, []);
    await peer.acknowledge();
    await peer.close(1012);
    await peer.fire();
  }
  assert.equal((peer.failed[0] as { code: number }).code, 1012);
});

test('a token that is over by the clock of this device is renewed when the server refuses it, and not before', async (t) => {
  t.mock.method(Math, 'random', () => 1);
  const asked: boolean[] = [];
  const peer = puppets(t, { token: (renew) => (asked.push(renew), expiring(-60)) });
  await peer.acknowledge();
  assert.deepEqual(await peer.fire(), [500], 'the connection has lasted');
  assert.deepEqual(asked, [false]);
  for (const wait of [100, 200]) {
    await peer.close(4403);
    assert.deepEqual(await peer.fire(), [wait]);
    await peer.acknowledge();
  }
  assert.deepEqual(asked, [false, true, true]);
});

test('connections that end soon for another token wait in between', async (t) => {
  t.mock.method(Math, 'random', () => 1);
  let asked = 0;
  const peer = puppets(t, { token: () => expiring(60 + asked++), maxWait: 60_000 });
  let clock = 0;
  t.mock.method(performance, 'now', () => clock);
  const renew = () => peer.fire(40_000); // the wait of half a minute, and not of the time for which a connection has to last
  for (const wait of [100, 200, 400]) {
    await peer.acknowledge();
    clock += 100;
    await renew();
    assert.deepEqual(await peer.fire(), [wait]);
  }
  await peer.acknowledge();
  clock += 30_000;
  const former = Puppet.last;
  await renew();
  assert.notEqual(Puppet.last, former, 'there is a wait after a connection that lasted');
});

test('a server that ends connections with 1000 is left alone in between', async (t) => {
  t.mock.method(Math, 'random', () => 1);
  const peer = puppets(t, {});
  for (const wait of [100, 200]) {
    await peer.acknowledge();
    await peer.close(1000);
    assert.deepEqual(await peer.fire(), [wait]);
  }
  await peer.close(1000); // in place of an acknowledgement
  assert.deepEqual(await peer.fire(), [400]);
});

test('connections that nobody needed any more are no failures', async (t) => {
  const peer = puppets(t, { retries: 1 });
  for (let i = 0; i < 3; i++) {
    await peer.acknowledge();
    peer.unsubscribe();
    await peer.fire();
    peer.subscribe();
  }
  await peer.acknowledge();
  await peer.close(1012);
  assert.deepEqual(peer.failed, []);
});

test('two subscriptions fail together, after as many retries as one', async (t) => {
  const peer = puppets(t, { retries: 1 });
  peer.subscribe();
  await peer.close(1006);
  await peer.fire();
  assert.deepEqual(peer.failed, []);
  await peer.close(1006);
  assert.equal(peer.failed.length, 2);
});

test('a source of tokens that fails is asked again', async () => {
  let asked = 0;
  const { socket, subscribes } = await connect(acknowledge, {
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

test('a connection keeps its own token, whatever another request renews meanwhile', async () => {
  const [soon, later] = [expiring(0.2), expiring(3600)];
  let subscribed = () => {};
  const first = new Promise<void>((resolve) => (subscribed = resolve));
  let renewals = 0;
  const tokens = createTokens(async (renew) => {
    if (!renew) return soon;
    if (++renewals > 1) return later;
    await first; // by now the connection is acknowledged
    throw new Error('the network is down');
  });
  const { socket, inits, subscribes } = await connect(
    (peer, message, connection) => {
      if (message.type === 'connection_init' && connection === 1) {
        tokens.drop(soon); // as an HTTP request does that was answered 401
        tokens.get().catch(() => {});
      }
      acknowledge(peer, message, connection);
      if (message.type === 'subscribe') subscribed();
    },
    { token: tokens },
  );
  const { failed } = subscribe(socket);
  await until(() => subscribes.length, (n) => n === 2, 'the connection is renewed when its own token expires');
  assert.deepEqual(inits.map((init) => init?.authorization), [`Bearer ${soon}`, `Bearer ${later}`]);
  assert.deepEqual(failed, []);
});

test('a connection that is silent is left for another', async () => {
  const { socket, subscribes } = await connect(
    (peer, message, connection) => {
      acknowledge(peer, message, connection);
      if (connection > 1 && message.type === 'ping') send(peer, { type: 'pong' });
    },
    { keepAlive: 20, pongWait: 20 },
  );
  subscribe(socket);
  await until(() => subscribes.length, (n) => n === 2, 'subscriptions');
});

test('a connection is left after a ping without a pong, whatever else arrives, and pinged again after each pong', async (t) => {
  t.mock.method(Math, 'random', () => 1);
  const peer = puppets(t, { keepAlive: 20_000, pongWait: 5_000, maxWait: 60_000 });
  await peer.acknowledge();
  for (let i = 0; i < 2; i++) {
    assert.deepEqual(await peer.fire(20_000), [20_000], 'it is not pinged');
    peer.receive({ type: 'pong' });
  }
  assert.deepEqual(await peer.fire(20_000), [20_000], 'it is not pinged');
  peer.receive({ id: 'another', type: 'next', payload: {} });
  assert.deepEqual(await peer.fire(20_000), [5_000], 'nobody waits for the pong');
  assert.deepEqual(await peer.fire(20_000), [100], 'it is not left');
});

test('a subscription that is refused ends with the errors, and is not sent again', async () => {
  const { socket, subscribes } = await connect((peer, message, connection) => {
    acknowledge(peer, message, connection);
    if (message.type === 'subscribe') send(peer, { id: message.id, type: 'error', payload: [{ message: 'no' }] });
  });
  const { failed } = subscribe(socket);
  await until(() => failed.length, (n) => n === 1, 'failures');
  assert.deepEqual(failed, [[{ message: 'no' }]]);
  assert.equal(subscribes.length, 1);
});

test('a subscription that cannot be sent ends with the error', async (t) => {
  const peer = puppets(t, {});
  peer.subscribe({ since: 1n }); // no JSON
  await peer.acknowledge();
  assert.match(String(peer.failed), /BigInt/);
});

test('an answer that is not of the protocol is no end', async () => {
  const { socket, inits } = await connect((peer, message, connection) => {
    if (connection === 1) return peer.send('<h1>proxy</h1>');
    acknowledge(peer, message, connection);
    if (message.type === 'subscribe') send(peer, { id: message.id, type: 'next', payload: event('1') });
  });
  const { seen, failed } = subscribe(socket);
  await until(() => [...seen, ...failed].length, (n) => n === 1, 'the event');
  assert.deepEqual([failed, inits.length], [[], 2]);
});
