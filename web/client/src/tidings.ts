import type { Client } from 'graphql-ws';
import { BADGES, type Badges } from './schema.js';
import { backoff, checkDevice, createSocket, longestWait, type SocketOptions } from './socket.js';
import { createTokens } from './token.js';
import { createGuard, over } from './version.js';

/** An error of an answer; extensions.code is one of the schema's ErrorCode. */
export interface GraphQLError {
  readonly message: string;
  readonly path?: readonly (string | number)[];
  readonly extensions?: Readonly<Record<string, unknown>>;
}

/** An answer of the server: a field that is null beside an error was refused, and the rest is valid. */
export interface Answer<Data> {
  readonly data?: Data | null;
  readonly errors?: readonly GraphQLError[];
}

/** A value that changes. get returns the same object until it changes. */
export interface Store<Value> {
  get(): Value;
  /** subscribe calls a listener after each change, until the function that it returns is called. */
  subscribe(listener: () => void): () => void;
}

/** The options for the connection to the server. */
export interface TidingsOptions extends SocketOptions {
  /** The fetch function. Default: the global fetch. */
  fetch?: typeof fetch;
}

/** A client without a cache: it asks, it listens, and it keeps the badges. */
export interface Tidings {
  /** request sends a query or a mutation. It rejects if there is no answer. */
  request<Data>(query: string, variables?: object): Promise<Answer<Data>>;
  /** mutate sends a mutation and shows the badges as predict expects them, until the answer has arrived or failed. */
  mutate<Data>(query: string, variables: object, predict: (badges: Badges) => Badges): Promise<Answer<Data>>;
  /**
   * listen hands over what a subscription pushes, until the function that it answers is called. It goes on after losses of the
   * connection, and begins again after RATE_LIMITED, UNAVAILABLE and INTERNAL, and when the server has completed the subscription:
   * what is not there any more is refused then, with NOT_FOUND. What else ends it goes to error, once. Default: to console.error.
   */
  listen<Data>(query: string, variables: object, next: (answer: Answer<Data>) => void, error?: (reason: unknown) => void): () => void;
  /** The newest badges; undefined until the first push, pushed as long as there is a listener. */
  readonly badges: Store<Badges | undefined>;
  /** The client of graphql-ws. */
  readonly socket: Client;
}

const watchBadges = `subscription WatchBadges($since: Version) { badgesChanged(since: $since) { ...TidingsBadges } } ${BADGES}`;

/** createTidings makes a client for one user. */
export function createTidings(options: TidingsOptions): Tidings {
  const tokens = typeof options.token === 'function' ? createTokens(options.token) : options.token;
  const { minWait, maxWait = longestWait } = options;
  checkDevice(options.device);
  let socket: Client | undefined;
  let disposed = false;
  const resting = new Set<ReturnType<typeof setTimeout>>(); // the waits of all that listens
  const url = options.url.replace(/^ws/, 'http');
  let held: Badges | undefined;
  let predictions: ((badges: Badges) => Badges)[] = [];

  const badges = createStore<Badges | undefined>(undefined, () => {
    // Not since the version that is held: an answer can have had it alone, and then the counts are older. The socket asks with
    // $since when it comes back.
    return listen<{ badgesChanged: Badges }>(watchBadges, { since: null }, ({ data }) => {
      if (!data || held) return; // once there are badges, the guard tells of newer ones
      held = data.badgesChanged;
      show();
    });
  });
  const show = () => badges.set(held && predictions.reduce((shown, predict) => predict(shown), held));
  const guard = createGuard((passed) => {
    if (!held || held.id !== passed.id) return;
    held = over(held, passed) as Badges;
    show();
  });

  /** open makes the socket when it is first needed: a server that renders pages needs none, and may have no WebSocket. */
  function open(): Client {
    if (socket) return socket;
    socket = createSocket({ ...options, token: tokens });
    const { dispose } = socket;
    socket.dispose = () => {
      disposed = true;
      resting.forEach(clearTimeout);
      return dispose();
    };
    return socket;
  }

  /** send is request; answered runs when the answer has arrived and before the caller gets it. */
  async function send<Data>(query: string, variables?: object, answered?: () => void): Promise<Answer<Data>> {
    for (let renewed = false; ; renewed = true) {
      const token = await tokens.get();
      const headers: Record<string, string> = {
        'content-type': 'application/json',
        accept: 'application/graphql-response+json, application/json',
        authorization: `Bearer ${token}`,
      };
      if (options.device) headers['tidings-device'] = options.device;
      const response = await (options.fetch ?? fetch)(url, { method: 'POST', headers, body: JSON.stringify({ query, variables }) });
      if (response.status === 401 && !renewed) {
        tokens.drop(token); // whatever the body is: a gateway's is no JSON
        continue;
      }
      const answer = (await response.json()) as Answer<Data>;
      answered?.();
      return { ...answer, data: guard(answer.data) };
    }
  }

  function listen<Data>(query: string, variables: object, next: (answer: Answer<Data>) => void, error: (reason: unknown) => void = console.error) {
    let stop: () => void, waiting: ReturnType<typeof setTimeout> | undefined;
    let stopped = false;
    let failures = 0; // in a row, with each end that the server made
    function begin(): void {
      const began = Date.now();
      const again = (wait: number) => {
        if (stopped || disposed) return;
        failures = Date.now() - began > maxWait ? 1 : failures + 1;
        resting.add((waiting = setTimeout(begin, wait + backoff(failures, minWait, maxWait))));
      };
      rest();
      stop = open().subscribe<Data>(
        { query, variables: variables as Record<string, unknown> },
        {
          next: (answer) => call(() => next({ ...answer, data: guard(answer.data) } as Answer<Data>)),
          error(reason) {
            if (stopped) return;
            const wait = waitOf(reason);
            if (wait === undefined) return error(reason);
            again(wait);
          },
          complete: () => again(0),
        },
      );
    }
    /** rest forgets the wait. */
    function rest(): void {
      clearTimeout(waiting);
      if (waiting) resting.delete(waiting);
    }
    begin();
    return () => {
      stopped = true;
      rest();
      stop();
    };
  }

  async function mutate<Data>(query: string, variables: object, predict: (badges: Badges) => Badges): Promise<Answer<Data>> {
    const own = (shown: Badges) => predict(shown); // the same prediction may be made twice
    const settle = () => void (predictions = predictions.filter((other) => other !== own));
    predictions = [...predictions, own];
    show();
    try {
      return await send<Data>(query, variables, settle);
    } finally {
      settle();
      show();
    }
  }

  return { request: (query, variables) => send(query, variables), mutate, listen, badges, get socket() { return open(); } };
}

/** waitOf is how long the server wants to be left alone, in milliseconds; undefined when asking again is of no use. */
function waitOf(reason: unknown): number | undefined {
  const { code, retryAfterMs } = (Array.isArray(reason) && (reason as GraphQLError[])[0]?.extensions) || {};
  if (code !== 'RATE_LIMITED' && code !== 'UNAVAILABLE' && code !== 'INTERNAL') return undefined;
  return typeof retryAfterMs === 'number' ? retryAfterMs : 0;
}

/**
 * call calls a listener, whose error is reported as that of any other event handler: it keeps neither other listeners from a change
 * nor an answer from its caller, and it is no reason to leave the connection, as graphql-ws would.
 */
function call(listener: () => void): void {
  try {
    listener();
  } catch (reason) {
    (globalThis.reportError ?? console.error)(reason);
  }
}

/** createStore makes a store that can be set; start runs while there is a listener. */
export function createStore<Value>(value: Value, start?: () => () => void): Store<Value> & { set(next: Value): void } {
  const listeners = new Set<() => void>();
  let stop: (() => void) | undefined;
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const listener of [...listeners]) call(listener);
    },
    subscribe(listener) {
      const own = () => listener(); // the same listener may listen twice
      listeners.add(own);
      if (listeners.size === 1) stop = start?.();
      return () => {
        if (listeners.delete(own) && listeners.size === 0) stop?.();
      };
    },
  };
}
