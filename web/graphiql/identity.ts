import { escapeKey } from '../client/src/ids.ts';
import { Cell } from '../demo/src/store.ts';
import { page, takeParameter } from './page.ts';
import { send } from './server.ts';
import { ofTab } from './storage.ts';

/** Who a token is for, as far as it says so. */
export interface Claims {
  readonly who: string;
  /** Milliseconds since 1970; undefined without an end. */
  readonly expires?: number;
}

const SCOPES = /:(admin|ingest)(,(admin|ingest))?$/;
const KEY = /^[^\p{C}\p{Zl}\p{Zp}]{1,128}$/u;
const personKey = 'tidings:person';
const tokenKey = 'tidings:token';

/** The chosen user of development mode: of the address (?as=bob), else that before a reload, else alice. */
export const person = new Cell(page.development ? firstPerson() : '');

/** The pasted token of production mode. It is kept for the browser tab. */
export const token = new Cell(page.development ? '' : ofTab.getItem(tokenKey) ?? '');

/** personOf reads a key, escaped as in IDs or as it is, with or without scopes: what follows dev: in a token. */
function personOf(text: string | null): string | undefined {
  const scopes = SCOPES.exec(text ?? '')?.[0] ?? '';
  const given = (text ?? '').slice(0, (text ?? '').length - scopes.length);
  const key = escapeKey(keyOf(given)) === given ? keyOf(given) : given.normalize('NFC').trim();
  return KEY.test(key) ? escapeKey(key) + scopes : undefined;
}

function keyOf(escaped: string): string {
  try {
    return decodeURIComponent(escaped);
  } catch {
    return escaped; // it has a % of its own
  }
}

function firstPerson(): string {
  const first = personOf(takeParameter('as')) ?? personOf(ofTab.getItem(personKey)) ?? 'alice';
  ofTab.setItem(personKey, first);
  return first;
}

export function bePerson(next: string): void {
  const known = personOf(next);
  if (!known) return;
  ofTab.setItem(personKey, known);
  person.set(known);
}

/** useToken keeps a token that the server takes; otherwise it returns why it does not. */
export async function useToken(pasted: string): Promise<string | undefined> {
  const bare = pasted.trim().replace(/^bearer\s+/i, '');
  if (!/^[\x21-\x7e]+$/.test(bare)) return 'That is not a token: a token is one word of letters, digits, dots, - and _.';
  const { answer, status } = await send({ query: '{ __typename }' }, { authorization: `Bearer ${bare}` });
  if (answer.errors) return status === 0 ? answer.errors[0]!.message : `The server refuses it. ${answer.errors[0]!.message}.`;
  ofTab.setItem(tokenKey, bare);
  token.set(bare);
  return undefined;
}

export function forgetToken(): void {
  ofTab.removeItem(tokenKey);
  token.set('');
}

/** The token that a request carries without a Headers editor; "" for none. */
export const currentToken = () => (page.development ? `dev:${person.get()}` : token.get());

/** claimsOf reads the claims of a token. It proves nothing: the server does that. */
export function claimsOf(bare: string): Claims {
  if (bare.startsWith('dev:')) {
    const [key, scopes] = bare.slice('dev:'.length).split(':');
    return { who: named(keyOf(key!), scopes?.replace(',', ', ')) };
  }
  try {
    const payload = atob(bare.split('.')[1]!.replaceAll('-', '+').replaceAll('_', '/'));
    const { sub, scope, exp } = JSON.parse(new TextDecoder().decode(Uint8Array.from(payload, (c) => c.charCodeAt(0)))) as { sub?: string; scope?: string; exp?: number };
    return { who: named(sub ?? 'the application', scope === 'viewer' ? '' : scope?.replaceAll(' ', ', ')), expires: exp && exp * 1000 };
  } catch {
    return { who: bare ? 'a token' : 'nobody' };
  }
}

const named = (key: string, scopes?: string) => (scopes ? `${key} (${scopes})` : key);
