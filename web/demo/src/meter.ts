import type { Side } from './view.ts';
import { Cell } from './store.ts';

/** A push on its way over the wire. */
export interface Dot {
  readonly id: number;
  readonly side: Side;
  /** The time from the change to the phone, in milliseconds; undefined if it is not known. */
  readonly ms: number | undefined;
  /** Whether the push holds everything that a phone missed without a network. */
  readonly caughtUp: boolean;
}

/** The dots that are on the wire. */
export const dots = new Cell<readonly Dot[]>([]);
/** The newest dot of each phone with something to tell. */
export const latest = new Cell<Partial<Record<Side, Dot>>>({});
/** The times of the last pushes, in milliseconds. */
export const times = new Cell<readonly number[]>([]);

const kept = 400;
const shownFor = 1600; // milliseconds
const gather = 40; // how long the events of one change are collected: one of them knows its time
const catchingUp = 5000; // how long after its return a push to a phone is what it missed
const longest = 10_000; // an older change is no push: the phone was away
const clickHolds = 2000; // a click that changed nothing is not the cause of a push after this

interface Incoming {
  version: string;
  at: number;
  began: number | undefined;
}
const incoming: Partial<Record<Side, Incoming>> = {};
const newest: Partial<Record<Side, string>> = {};
const known: Partial<Record<Side, number>> = {}; // the newest fact that the phone was told of
const back: Partial<Record<Side, number>> = {}; // when the phone got its network again; 0 once it has caught up
let click: { at: number; left: Set<Side> } | undefined;
let ids = 0;

/** clicked says that the visitor has changed something now: the next push to each phone is of that, if it comes soon. */
export function clicked(): void {
  click = { at: Date.now(), left: new Set(['left', 'right']) };
}

/** sinceClick is how long a change took that was not pushed to a phone: since the item that it tells of, or the last click; undefined if neither is near. */
export function sinceClick(now: number, item: number | undefined): number | undefined {
  if (item !== undefined && now - item >= 0 && now - item < longest) return now - item;
  return click && now - click.at < longest ? now - click.at : undefined;
}

/** unclicked says that the next pushes are of something else. */
export function unclicked(): void {
  click = undefined;
}

/** caughtUp says that a phone has its network again: the next state that it gets is all that it missed. */
export function caughtUp(side: Side): void {
  back[side] = Date.now();
}

/** arrived takes an event of a phone. The events of one version of the badges are one push. */
export function arrived(side: Side, data: Record<string, unknown>, first: boolean): void {
  const version = versionOf(data);
  if (!version) return;
  const former = newest[side];
  const pending = incoming[side];
  // A mark repeats the times of older facts: only a fact that the phone did not know of yet is what the push is about.
  let fact = newestTime(data);
  if (fact !== undefined && fact <= (known[side] ?? 0)) fact = undefined;
  if (fact !== undefined) known[side] = fact;
  if (pending?.version === version) {
    pending.began = fact ?? pending.began;
    return;
  }
  if (former && version <= former) return;
  newest[side] = version;
  if (!former || (first && back[side] === undefined)) return; // the state at the start is no push
  const at = Date.now();
  const one: Incoming = { version, at, began: fact };
  incoming[side] = one;
  setTimeout(() => finish(side, one), gather);
}

function finish(side: Side, { at, began }: Incoming): void {
  let from = began !== undefined && at - began >= 0 && at - began < longest ? began : undefined;
  // A push of a fact since the click is that of the click too: what comes after it has a cause of its own.
  if (click && at - click.at < clickHolds && (from === undefined || from >= click.at) && click.left.delete(side)) from ??= click.at;
  const late = at - (back[side] ?? 0) < catchingUp; // if nothing was missed, nothing comes
  if (late) back[side] = 0;
  const ms = late || from === undefined ? undefined : at - from;
  if (ms !== undefined) times.set([...times.get(), ms].slice(-kept));
  const dot: Dot = { id: ++ids, side, ms, caughtUp: late };
  dots.set([...dots.get(), dot]);
  if (late || ms !== undefined) latest.set({ ...latest.get(), [side]: dot });
  setTimeout(() => dots.set(dots.get().filter((other) => other !== dot)), shownFor);
}

/** quantile is the value below which a share of the values lies; undefined if there are none. */
export function quantile(values: readonly number[], share: number): number | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

function versionOf(data: unknown): string | undefined {
  if (typeof data !== 'object' || data === null) return undefined;
  const { version } = data as { version?: unknown };
  if (typeof version === 'string') return version;
  for (const value of Object.values(data)) {
    const found = versionOf(value);
    if (found) return found;
  }
  return undefined;
}

/** madeAt reads when a post was made from its ID. Only a demo does this: an application asks for publishedAt. */
function madeAt(id: string): number | undefined {
  const letters = /^post:([0-9A-HJKMNP-TV-Z]{13})$/.exec(id)?.[1];
  if (!letters) return undefined;
  let value = 0n;
  for (const letter of letters) value = value * 32n + BigInt('0123456789ABCDEFGHJKMNPQRSTVWXYZ'.indexOf(letter));
  return Number(value >> 21n);
}

const timed = new Set(['at', 'sentAt', 'startedAt', 'endedAt', 'publishedAt']);

/** newestTime is the newest time of a fact in an event. */
function newestTime(data: unknown): number | undefined {
  let found: number | undefined;
  const walk = (value: unknown, name: string): void => {
    if (typeof value === 'string' && name === 'newestId') found = Math.max(found ?? 0, madeAt(value) ?? 0);
    else if (typeof value === 'string' && timed.has(name)) found = Math.max(found ?? 0, Date.parse(value));
    else if (typeof value === 'object' && value !== null) for (const [key, inner] of Object.entries(value)) walk(inner, Array.isArray(value) ? name : key);
  };
  walk(data, '');
  return found;
}
