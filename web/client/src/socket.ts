import { createClient, type Client, type ClientOptions } from 'graphql-ws';
import { createTokens, expiryOf, type Tokens, type TokenSource } from './token.js';
import { versionIn } from './version.js';

/** How a socket is opened and kept. Times are in milliseconds. */
export interface SocketOptions {
  /** The server's /graphql: http, https, ws or wss. */
  url: string;
  /** Where tokens come from. */
  token: TokenSource | Tokens;
  /** Names this device, 1 to 64 characters: conversations are entered and left by it. */
  device?: string;
  /** The first wait before trying again; it doubles with every failure. Default 500. */
  minWait?: number;
  /** The longest wait before trying again. Default 30,000. */
  maxWait?: number;
  /** How often to fail in a row before subscriptions end with an error. Default: never. */
  retries?: number;
  /** How long before it expires a token is renewed. Default 30,000, but never more than half of its life. */
  renewBefore?: number;
  /** After how much silence to ask whether the server is there. Default 20,000. */
  keepAlive?: number;
  /** How long the server may take to say so. Default 5,000. */
  pongWait?: number;
  /** The WebSocket to use where there is none, as in Node before 22. */
  webSocketImpl?: unknown;
  /** Told of the connection, beside what is done here. */
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

/**
 * createSocket makes a client of graphql-ws that stays connected: for Apollo's GraphQLWsLink, for urql's subscriptionExchange,
 * for Relay's Network, or to be used as it is.
 *
 * It tries again whatever ended the connection, with waits that double, are bounded and differ between clients, and at once
 * when the browser is online again. It renews the token before it expires, and when the server refuses it (4401, 4403). It
 * leaves a connection that is silent. A subscription with $since asks, once connected again, for what is newer than the badges
 * it had, and one with $sessionId for the session that it had: what is unchanged is not sent twice.
 */
export function createSocket(options: SocketOptions): Client {
  const tokens = typeof options.token === 'function' ? createTokens(options.token) : options.token;
  const { minWait = 500, maxWait = 30_000, renewBefore = 30_000, pongWait = 5_000, on = {} } = options;
  const resume = createResume();
  let renewal: Timer, pong: Timer;
  let planned = false; // the connection was cut by ourselves, to come back with another token

  function renewInTime(token: string): void {
    const expiry = expiryOf(token);
    if (expiry === undefined) return;
    const left = expiry - Date.now();
    renewal = timer(Math.max(left - renewBefore, left / 2), async () => {
      const next = await tokens.get(true);
      if (next === token) return; // there is no other yet: the server says when this one is over
      planned = true;
      client.terminate();
    });
  }

  const client: Client = createClient({
    url: options.url.replace(/^http/, 'ws'),
    webSocketImpl: options.webSocketImpl,
    async connectionParams() {
      try {
        const token = await tokens.get();
        return { authorization: `Bearer ${token}`, ...(options.device && { device: options.device }) };
      } catch {
        client.terminate(); // and try again: an error that is thrown here ends every subscription
        return undefined;
      }
    },
    keepAlive: options.keepAlive ?? 20_000,
    connectionAckWaitTimeout: 10_000,
    retryAttempts: options.retries ?? Infinity,
    shouldRetry: () => true, // a server that is not there is an error and no close event, which graphql-ws gives up on
    async retryWait(failures) {
      if (planned) planned = false;
      else await pause(Math.min(maxWait, minWait * 2 ** failures) * (0.5 + Math.random() / 2));
    },
    jsonMessageReplacer: (key, value) => (key === '' ? resume.sent(value) : value),
    on: {
      ...on,
      async connected(...args) {
        on.connected?.(...args);
        renewInTime(await tokens.get());
      },
      message(message) {
        on.message?.(message);
        clearTimeout(pong);
        resume.received(message);
      },
      ping(received, payload) {
        on.ping?.(received, payload);
        if (!received) pong = timer(pongWait, () => client.terminate());
      },
      closed(event) {
        on.closed?.(event);
        clearTimeout(renewal);
        clearTimeout(pong);
        const { code } = event as { code?: number };
        if (code === 4401 || code === 4403) tokens.drop();
        // graphql-ws ends subscriptions after these two; after its own terminate it tries again.
        if (code === 4401 || code === 4429) client.terminate();
      },
    },
  });
  return client;
}

/** createResume remembers how far each subscription has come, and asks for the rest when it is sent again. */
function createResume() {
  const reached = new Map<string, { since?: string; sessionId?: string }>();
  return {
    received({ id, type, payload }: Message): void {
      if (!id) return;
      if (type !== 'next') return void reached.delete(id);
      const { data } = payload as { data?: Record<string, { sessionId?: string } | null> };
      const since = versionIn(data);
      const sessionId = Object.values(data ?? {})[0]?.sessionId;
      reached.set(id, { ...reached.get(id), ...(since && { since }), ...(sessionId && { sessionId }) });
    },
    sent(message: Message): Message {
      const known = message.id && reached.get(message.id);
      if (!known) return message;
      if (message.type !== 'subscribe') return reached.delete(message.id!), message;
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
      // The source of tokens failed: the server closes the connection when the token is over, and then it is asked again.
    }
  }, Math.min(Math.max(wait, 0), longestTimer));
}

/** pause waits so long, or until the browser is online again. */
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
