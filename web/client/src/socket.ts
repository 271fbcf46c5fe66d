import { createClient, type Client, type ClientOptions } from 'graphql-ws';
import { createTokens, expiryOf, type Tokens, type TokenSource } from './token.js';
import { versionIn } from './version.js';

/** The options of a socket. Times are in milliseconds. */
export interface SocketOptions {
  /** The server's /graphql: http, https, ws or wss. */
  url: string;
  /** The source of tokens. */
  token: TokenSource | Tokens;
  /**
   * The name of this device, under which conversations are entered and left: 1 to 64 ASCII letters, digits, '.', '_' and '-'. HTTP
   * requests have the same name in the header Tidings-Device. All devices of a user without a name count as one, and the end of
   * their connections leaves no conversation.
   */
  device?: string;
  /** The first wait before trying again; it doubles with every failure. Default 500. */
  minWait?: number;
  /** The longest wait before trying again. Default 30,000. */
  maxWait?: number;
  /** How many failures in a row end subscriptions with an error; a connection that did not last counts. Default: Infinity. */
  retries?: number;
  /** The time before its expiry at which a token is renewed. Default 30,000, but at most half of its life. */
  renewBefore?: number;
  /** The silence after which the client pings the server. Default 20,000. */
  keepAlive?: number;
  /** The time the server has to answer a ping, counted anew with each message that comes before the pong. Default 5,000. */
  pongWait?: number;
  /** The WebSocket class to use where there is no global one, as in Node before 22. */
  webSocketImpl?: unknown;
  /** Listeners of graphql-ws, called before those of this package. */
  on?: ClientOptions['on'];
}

interface Message {
  id?: string;
  type: string;
  payload?: unknown;
}

interface Operation {
  query?: string;
  variables?: Record<string, unknown> | null;
}

const longestTimer = 2 ** 31 - 1;

/** The default of maxWait. */
export const longestWait = 30_000;

/**
 * How long a connection has to last for its end to be free of a wait when it is cut for another token, in milliseconds, where
 * maxWait is not shorter. By the clock of a device that is ahead each token is about to expire.
 */
const shortestLife = 5_000;

/**
 * The close codes that graphql-ws ends subscriptions at, and that another attempt can mend: the server or a proxy is at fault
 * (1002 to 1015, 4500), or it refuses for now (4401, 4429). After the others, as 1001, 1006, 1012 and 4403, graphql-ws comes
 * back by itself, but for 4400, 4406 and 4409: then the client is at fault, and would be again.
 */
const passing = new Set([1002, 1003, 1007, 1008, 1009, 1010, 1011, 1015, 4401, 4429, 4500]);

/**
 * createSocket makes a client of graphql-ws that stays connected: for Apollo's GraphQLWsLink, for urql's subscriptionExchange,
 * for Relay's Network, or to be used as it is.
 *
 * It connects again, whether the server, a proxy or the network ended the connection. Its waits double until a connection has
 * lasted for maxWait, are bounded and differ between clients, and end when the browser is online again. Subscriptions end when
 * the server finds the client at fault (4400, 4406, 4409). It renews the token before it expires, and when the server refuses
 * it (4401, 4403). It leaves a connection that is silent. A subscription with $since asks, once connected again, for what is
 * newer than the badges it had, and one with $sessionId for the session that it had: what is unchanged is not sent twice.
 *
 * It throws on a name of the device that the server would refuse with 4400, which ends every subscription.
 */
export function createSocket(options: SocketOptions): Client {
  checkDevice(options.device);
  const tokens = typeof options.token === 'function' ? createTokens(options.token) : options.token;
  const { minWait, maxWait = longestWait, renewBefore = 30_000, pongWait = 5_000, retries = Infinity, on = {} } = options;
  const resume = createResume();
  let renewal: Timer, pong: Timer, lasting: Timer;
  let sent = ''; // the token of this connection: by now another one can be in hand
  let failures = 0; // in a row, with the present connection as one until it has lasted
  let fault: unknown; // the last error of a connection
  let acknowledged = false;
  let since = 0; // when it was acknowledged: not by Date, which can be set
  let planned = false; // the connection was cut by ourselves, to come back with another token

  function renewInTime(token: string): void {
    const expiry = expiryOf(token);
    if (expiry === undefined) return;
    const left = expiry - Date.now();
    if (left <= 0) return; // the server has accepted it, so this device's clock is wrong: the server says when it is over
    renewal = timer(Math.max(left - renewBefore, left / 2), async () => {
      tokens.drop(token);
      if ((await tokens.get()) === token) return; // there is no other yet: the server says when this one is over
      planned = performance.now() - since >= Math.min(shortestLife, maxWait);
      client.terminate();
    });
  }

  function awaitPong(): void {
    clearTimeout(pong);
    pong = timer(pongWait, () => client.terminate());
  }

  function stopAwaiting(): void {
    clearTimeout(pong);
    pong = undefined;
  }

  const client: Client = createClient({
    url: options.url.replace(/^http/, 'ws'),
    webSocketImpl: options.webSocketImpl,
    async connectionParams() {
      try {
        sent = await tokens.get();
        return { authorization: `Bearer ${sent}`, ...(options.device && { device: options.device }) };
      } catch {
        client.terminate(); // and try again: an error that is thrown here ends every subscription
        return undefined;
      }
    },
    keepAlive: options.keepAlive ?? 20_000,
    connectionAckWaitTimeout: 10_000,
    // graphql-ws begins to count anew at each acknowledgement: a server that acknowledges and closes would have no peace.
    retryAttempts: Infinity,
    // A server that is not there is an error and no close event. Any other error is of the operation itself, as variables that
    // are no JSON: graphql-ws would send it again and again without a wait.
    shouldRetry: (reason) => (reason === fault || 'reason' in Object(reason)) && failures <= retries,
    async retryWait() {
      if (planned) {
        planned = false;
        failures--;
      } else await pause(backoff(failures, minWait, maxWait));
    },
    jsonMessageReplacer: (key, value) => (key === '' ? resume.sent(value) : value),
    on: {
      ...on,
      connecting(...args) {
        on.connecting?.(...args);
        failures++;
      },
      connected(...args) {
        on.connected?.(...args);
        acknowledged = true;
        since = performance.now();
        renewInTime(sent);
        lasting = timer(maxWait, () => (failures = 1));
      },
      error(reason) {
        on.error?.(reason);
        fault = reason;
        // An answer that is not of the protocol: let go at once, or the end of this socket would be taken for that of the next one.
        if (reason instanceof Error) client.terminate();
      },
      message(message) {
        on.message?.(message);
        // It is alive, but the pong can be behind others. Only a pong lets graphql-ws ping again, so it is awaited all the same.
        if (pong) awaitPong();
        resume.received(message);
      },
      ping(received, payload) {
        on.ping?.(received, payload);
        if (!received) awaitPong();
      },
      pong(received, payload) {
        on.pong?.(received, payload);
        if (received) stopAwaiting();
      },
      closed(event) {
        on.closed?.(event);
        clearTimeout(renewal);
        stopAwaiting();
        clearTimeout(lasting);
        const { code = 0 } = event as { code?: number };
        if (code === 4401 || code === 4403) tokens.drop(sent);
        const idle = resume.lost() === 0 && acknowledged;
        acknowledged = false;
        if (code === 1000 && idle) failures--; // our own end: nobody subscribes any more
        // After this graphql-ws tries again, with a wait: of itself it takes every 1000 for our own, and would not wait.
        else if (code === 1000 || passing.has(code)) client.terminate();
      },
    },
  });
  return client;
}

/** checkDevice throws on a name that the server would refuse. */
export function checkDevice(device: string | undefined): void {
  if (device !== undefined && !/^[\w.-]{1,64}$/.test(device)) {
    throw new Error(`device: 1 to 64 letters, digits, '.', '_' and '-' are allowed, got ${JSON.stringify(device)}`);
  }
}

/**
 * createResume remembers the state of each subscription, and asks only for later states when it is sent again. It counts those of
 * the connection.
 */
function createResume() {
  const reached = new Map<string, { since?: string; sessionId?: string }>();
  const running = new Set<string>(); // on this connection
  function ended(id: string): void {
    reached.delete(id);
    running.delete(id);
  }
  return {
    /** lost says how many subscriptions the connection carried that has ended. */
    lost(): number {
      const { size } = running;
      running.clear();
      return size;
    },
    received({ id, type, payload }: Message): void {
      if (!id) return;
      if (type !== 'next') return void ended(id);
      const { data } = payload as { data?: Record<string, { sessionId?: string } | null> };
      const since = versionIn(data);
      const sessionId = Object.values(data ?? {})[0]?.sessionId;
      reached.set(id, { ...reached.get(id), ...(since && { since }), ...(sessionId && { sessionId }) });
    },
    sent(message: Message): Message {
      if (!message.id) return message;
      if (message.type !== 'subscribe') return ended(message.id), message;
      running.add(message.id);
      const known = reached.get(message.id);
      if (!known) return message;
      const payload = message.payload as Operation;
      const variables = { ...payload.variables };
      for (const [name, value] of Object.entries(known)) {
        if (name in variables || payload.query?.includes(`$${name}:`)) variables[name] = value;
      }
      return { ...message, payload: { ...payload, variables } };
    },
  };
}

type Timer = ReturnType<typeof setTimeout> | undefined;

function timer(wait: number, then: () => unknown): Timer {
  return setTimeout(async () => {
    try {
      await then();
    } catch {
      // The source of tokens failed. The server closes the connection when the token expires; the source is asked again then.
    }
  }, Math.min(Math.max(wait, 0), longestTimer));
}

/** backoff is how long to wait after so many failures, from 1, in milliseconds: between half and all of a wait that doubles. */
export function backoff(failures: number, minWait = 500, maxWait = longestWait): number {
  return Math.min(maxWait, minWait * 2 ** (failures - 1)) * (0.5 + Math.random() / 2);
}

/** pause waits for a time, or until the browser is online again. */
function pause(wait: number): Promise<void> {
  return new Promise((resolve) => {
    const events = typeof window === 'undefined' ? undefined : window;
    const done = () => {
      clearTimeout(waiting);
      events?.removeEventListener('online', done);
      resolve();
    };
    const waiting = setTimeout(done, wait);
    events?.addEventListener('online', done);
  });
}
