import { createSocket } from '../client/src/socket.ts';
import { Cell } from '../demo/src/store.ts';
import { changedPaths, changesIn, type Change } from './difference.ts';
import { claimsOf, currentToken, token } from './identity.ts';
import { remember } from './operations.ts';
import { page } from './page.ts';
import { look, type GraphQLAnswer } from './server.ts';
import { ofTab } from './storage.ts';

/** connecting and lost come to live by themselves; stopped, refused and ended by Start alone. */
export type State = 'connecting' | 'live' | 'lost' | 'stopped' | 'refused' | 'ended';

/** A line of a watch: an event, or what happened to the connection. */
export interface Entry {
  readonly id: number;
  readonly at: Date;
  /** What the page says; "" for an event. */
  readonly note: string;
  readonly answer?: GraphQLAnswer;
  /** The paths at which the event differs from the one before; undefined for the first. */
  readonly changed?: ReadonlySet<string>;
  /** The first of the changes, and how many more there are. */
  readonly changes?: { readonly first: readonly Change[]; readonly more: number };
}

/** What is watched. */
export interface Subject {
  readonly name: string;
  readonly query: string;
  readonly operationName?: string;
  readonly variables?: Record<string, unknown>;
  readonly device?: string;
  /** The token of the Headers editor, or of development mode; undefined for the pasted one, whatever it is by then. */
  readonly token?: string;
}

const longest = 200; // entries of a watch
const key = 'tidings:watches';

let entryCount = 0;
let watchCount = 0;

/** Watch is a subscription that runs until it is stopped, whichever tab of GraphiQL is in front and however often the server goes. */
export class Watch {
  readonly id = ++watchCount;
  readonly state = new Cell<State>('stopped');
  readonly entries = new Cell<readonly Entry[]>([]);
  private last: GraphQLAnswer | undefined;
  private lostAt = 0;
  private cancel = () => {};

  constructor(readonly subject: Subject) {}

  /** Who watches. */
  get who(): string {
    return claimsOf(this.token).who;
  }

  private get token(): string {
    return this.subject.token ?? currentToken();
  }

  start(): void {
    this.cancel();
    if (!this.token) return this.over('refused', 'The server wants a token: paste one at the top of the page.');
    this.state.set('connecting');
    this.lostAt = 0;
    this.last = undefined;
    let over = false;
    const client = createSocket({
      url: page.endpoint,
      token: () => this.token,
      device: this.subject.device,
      minWait: 300,
      maxWait: 3000,
      on: {
        connected: () => {
          if (over) return;
          if (this.lostAt) this.note(`Connected again after ${Math.max(1, Math.round((Date.now() - this.lostAt) / 1000))} s.`);
          this.lostAt = 0;
          this.state.set('live');
        },
        closed: (event) => {
          if (over) return;
          const { code, reason } = event as CloseEvent;
          if (code === 4401 || code === 4403) this.over('refused', `The server refuses the token: ${reason || code}.`);
          else if (code !== 1000) this.lost(reason);
        },
        error: () => over || this.lost(),
      },
    });
    const { query, operationName, variables } = this.subject;
    const unsubscribe = client.subscribe({ query, operationName, variables }, {
      next: (answer) => this.event(answer as GraphQLAnswer),
      error: (reason) => {
        const told = Array.isArray(reason) ? reason.map(({ message }: { message: string }) => message).join(' ') : reason instanceof Error ? reason.message : `the connection ended (${(reason as CloseEvent).code})`;
        this.over('ended', `The server ended it: ${told}`);
      },
      complete: () => over || this.over('ended', 'The server ended it.'),
    });
    this.cancel = () => {
      over = true;
      this.cancel = () => {};
      unsubscribe();
      void client.dispose();
    };
  }

  stop(): void {
    if (this.running()) this.over('stopped', 'Stopped.');
  }

  clear(): void {
    this.entries.set([]);
  }

  running(): boolean {
    return ['connecting', 'live', 'lost'].includes(this.state.get());
  }

  private event(answer: GraphQLAnswer): void {
    const { last } = this;
    remember(answer.data);
    this.last = answer;
    const changed = last && changedPaths(last, answer);
    this.add({ note: '', answer, changed, changes: changed && changesIn(last, answer, changed) });
  }

  private lost(reason = ''): void {
    if (!this.lostAt) {
      this.lostAt = Date.now();
      this.note(`Connection lost${reason && ` (${reason})`}. Trying again until the server is back.`);
    }
    this.state.set('lost');
    void look();
  }

  private over(state: State, note: string): void {
    this.cancel();
    this.note(note);
    this.state.set(state);
    store();
  }

  private note(note: string): void {
    this.add({ note });
  }

  private add(entry: Omit<Entry, 'id' | 'at'>): void {
    this.entries.set([{ id: ++entryCount, at: new Date(), ...entry }, ...this.entries.get()].slice(0, longest));
  }
}

/** The watches, in the order in which they were begun. */
export const watches = new Cell<readonly Watch[]>([]);

/** Whether their pane is open. */
export const open = new Cell(false);

/** begin starts a watch and shows it. The same one is not begun twice: it goes on, or starts again. */
export function begin(subject: Subject): Watch {
  const same = watches.get().find((one) => JSON.stringify(one.subject) === JSON.stringify(subject));
  const watch = same ?? new Watch(subject);
  if (!same) watches.set([...watches.get(), watch]);
  if (!watch.running()) watch.start();
  open.set(true);
  store();
  return watch;
}

export function remove(watch: Watch): void {
  watch.stop();
  watches.set(watches.get().filter((one) => one !== watch));
  if (watches.get().length === 0) open.set(false);
  store();
}

/** store keeps what is watched for a reload, but no token that was typed into an editor. */
function store(): void {
  const kept = watches.get().filter((one) => one.running() && (one.subject.token ?? 'dev:').startsWith('dev:'));
  ofTab.setItem(key, JSON.stringify(kept.map(({ subject }) => subject)));
}

/** resume begins the watches of before a reload. */
export function resume(): void {
  try {
    for (const subject of JSON.parse(ofTab.getItem(key) ?? '[]') as Subject[]) begin(subject);
  } catch {
    ofTab.removeItem(key); // it was not ours
  }
}

// A pasted token is replaced for the watches too; one that is forgotten is used no longer.
token.subscribe(() => {
  for (const watch of watches.get()) {
    if (watch.subject.token !== undefined) continue;
    if (token.get()) watch.start();
    else watch.stop();
  }
});
