import { createTidings, type Tidings } from '@tidings/client';
import { Cell } from './store.ts';
import { last, note } from './log.ts';
import { arrived, caughtUp } from './meter.ts';
import { page, session } from './page.ts';
import type { Side } from './view.ts';

export type State = 'connecting' | 'online' | 'away' | 'cut';

/** A phone: its client, and the network between it and the server. */
export interface Phone {
  readonly side: Side;
  readonly tidings: Tidings;
  readonly state: Cell<State>;
  /** Counts the connections: a list that changes with it is read again. */
  readonly connections: Cell<number>;
  /** cut takes the network away, or gives it back. */
  cut(off: boolean): void;
}

interface Message {
  id?: string;
  type: string;
  payload?: { query?: string; variables?: object; data?: Record<string, unknown> };
}

/** newKey makes a key that nobody else has. There is no crypto.randomUUID on a page that is served by http to another machine. */
export const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');

/** Part of the names of this tab's devices: a phone of another tab that leaves a conversation does not end the visit of one here. */
const tab = newKey();

/** createPhone makes a phone. Its network is the browser's, until it is cut. */
export function createPhone(side: Side): Phone {
  const state = new Cell<State>('connecting');
  const connections = new Cell(0);
  const open = new Set<TracedSocket>();
  let off = false;

  class TracedSocket extends WebSocket {
    private readonly documents = new Map<string, { query: string; variables: object; first: boolean }>();

    constructor(url: string | URL, protocols?: string | string[]) {
      if (off) return noSocket() as unknown as TracedSocket;
      super(url, protocols);
      open.add(this);
      this.addEventListener('close', () => open.delete(this));
      this.addEventListener('message', ({ data }) => this.received(JSON.parse(String(data)) as Message));
    }

    override send(data: string): void {
      const message = JSON.parse(data) as Message;
      if (message.type === 'subscribe' && message.id) {
        this.documents.set(message.id, { query: message.payload?.query ?? '', variables: message.payload?.variables ?? {}, first: true });
      }
      super.send(data);
    }

    private received({ id, type, payload }: Message): void {
      const document = id && this.documents.get(id);
      if (type !== 'next' || !document || !payload?.data) return;
      if (!document.first || !last.get()) note({ by: side, push: true, query: document.query, variables: document.variables, token: session.token, data: payload.data });
      arrived(side, payload.data, document.first);
      document.first = false;
    }

    /** lose ends the connection as a network does that is gone: the client learns of it now, the server when it notices. */
    lose(): void {
      const closed = this.onclose;
      this.onclose = this.onmessage = this.onerror = null;
      this.close();
      closed?.call(this, new CloseEvent('close', { code: 1006 }));
    }
  }

  const tidings = createTidings({
    url: page.endpoint,
    token: () => session.token,
    device: `${side}-${tab}`,
    minWait: 300,
    maxWait: 2500,
    webSocketImpl: TracedSocket,
    fetch: async (url, options) => {
      if (off) throw new TypeError('This phone has no network');
      const { query, variables } = JSON.parse(String(options?.body)) as { query: string; variables?: object };
      const mutation = query.startsWith('mutation');
      const entry = mutation ? note({ by: side, push: false, query, variables: variables ?? {}, token: session.token }) : undefined;
      const response = await fetch(url, options);
      if (entry) void response.clone().json().then((answer: { data?: unknown }) => entry(answer.data ?? answer), () => undefined);
      return response;
    },
    on: {
      connected: () => {
        state.set('online');
        if (connections.get() > 0) caughtUp(side);
        connections.set(connections.get() + 1);
      },
      closed: () => state.set(off ? 'cut' : 'away'),
      error: () => state.set(off ? 'cut' : 'away'),
    },
  });
  return {
    side,
    tidings,
    state,
    connections,
    cut(now) {
      off = now;
      if (now) {
        for (const socket of [...open]) socket.lose();
        state.set('cut');
      } else {
        state.set('away');
        window.dispatchEvent(new Event('online')); // as a browser says when it has its network again
      }
    },
  };
}

/** noSocket is a connection that fails, without asking the network. */
function noSocket(): object {
  const socket = {
    readyState: WebSocket.CONNECTING as number,
    protocol: '',
    onclose: null as ((event: CloseEvent) => void) | null,
    onopen: null, onmessage: null, onerror: null,
    send() {},
    close() {},
  };
  setTimeout(() => {
    socket.readyState = WebSocket.CLOSED;
    socket.onclose?.(new CloseEvent('close', { code: 1006 }));
  }, 10);
  return socket;
}
