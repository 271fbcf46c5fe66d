import { Cell } from '../demo/src/store.ts';
import { page } from './page.ts';

/** A ready-made operation. */
export interface Ready {
  /** Its name in an address, as my-badges. */
  readonly slug: string;
  /** The capability that it shows. */
  readonly group: string;
  readonly query: string;
  readonly variables?: string;
}

/** The ready-made operations, in the order of the tour; empty until they have arrived. */
export const operations = new Cell<readonly Ready[]>([]);

/** So many of the first are tabs to begin with: those of the tour's first steps. */
export const tabsAtFirst = 6;

/** nameOf is the name of an operation, as MyBadges. */
export const nameOf = ({ query }: Pick<Ready, 'query'>) => /^(?:query|mutation|subscription)\s+(\w+)/m.exec(query)?.[1] ?? '';

/** kindOf is query, mutation or subscription. */
export const kindOf = ({ query }: Pick<Ready, 'query'>) => /^(query|mutation|subscription)\b/m.exec(query)?.[1] ?? 'query';

/** purposeOf is what the comment at the head says, in one line. */
export const purposeOf = ({ query }: Pick<Ready, 'query'>) =>
  (/^(?:#.*\n)+/.exec(query)?.[0] ?? '').replace(/^# ?/gm, '').replaceAll('\n', ' ').trim();

let asked = false;

/** fetchOperations reads the ready-made operations and returns the HTTP status. It throws without an answer. */
export async function fetchOperations(): Promise<number> {
  const response = await fetch(page.operations, { cache: asked ? 'reload' : 'default' }); // a refusal may be kept too
  asked = true;
  if (response.ok) operations.set((await response.json()) as Ready[]);
  return response.status;
}

/** find answers the operation of a name, as an address gives it: my-badges, or MyBadges. */
export const find = (name: string) => operations.get().find((one) => one.slug === name || nameOf(one) === name);

// The newest ids that an answer held, by their kinds.
const newest = new Map<string, string>();

/** remember takes note of the ids of an answer. Of several in one answer the first counts, which is the newest. */
export function remember(data: unknown): void {
  const found = new Map<string, string>();
  JSON.stringify(data ?? null, (_, value: unknown) => {
    const kind = typeof value === 'string' ? /^(post|show|conversation):./.exec(value)?.[1] : undefined;
    if (kind && !found.has(kind)) found.set(kind, value as string);
    return value;
  });
  for (const [kind, id] of found) newest.set(kind, id);
}

/** times are the words that stand for a time in the variables of a ready-made operation: a date would be in the past one day. */
const times: Record<string, () => Date> = {
  'A MINUTE AGO': () => new Date(Date.now() - 60_000),
  'IN A MONTH': () => {
    const then = new Date();
    then.setUTCDate(then.getUTCDate() + 30);
    then.setUTCHours(20, 0, 0, 0);
    return then;
  },
};

/** filled puts times and ids into variables that leave them open: "IN A MONTH", and "post:" once an answer held a post. */
export function filled(variables: string): string {
  return variables.replace(/"([A-Z ]+|(?:post|show|conversation):)"/g, (whole, word: string) => {
    const known = word.endsWith(':') ? newest.get(word.slice(0, -1)) : times[word]?.().toISOString();
    return known === undefined ? whole : JSON.stringify(known);
  });
}
