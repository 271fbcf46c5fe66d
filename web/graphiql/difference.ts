/** What one answer has and the one before had not. */

/** flat is each value of an answer that is no object and no list, by its path. */
function flat(value: unknown, path = '', into = new Map<string, string>()): Map<string, string> {
  if (value === null || typeof value !== 'object') return into.set(path, JSON.stringify(value) ?? 'undefined');
  for (const [name, one] of Object.entries(value)) flat(one, path + step(value, name), into);
  return into;
}

const step = (parent: object, name: string) => (Array.isArray(parent) ? `[${name}]` : `.${name}`);

/** changedPaths are the paths of the values that are new or not what they were, or that are gone. */
export function changedPaths(former: unknown, now: unknown): Set<string> {
  const [before, after] = [flat(former), flat(now)];
  return new Set([...after.keys(), ...before.keys()].filter((path) => before.get(path) !== after.get(path)));
}

/** A line of an answer as JSON. */
export interface Line {
  readonly path: string;
  readonly text: string;
}

/** lines writes an answer as JSON of two spaces, with the path of each line. */
export function lines(value: unknown, path = '', indent = '', before = '', after = ''): Line[] {
  if (value === null || typeof value !== 'object' || Object.keys(value).length === 0) {
    return [{ path, text: `${indent}${before}${JSON.stringify(value)}${after}` }];
  }
  const list = Array.isArray(value);
  const all = Object.entries(value);
  return [
    { path, text: `${indent}${before}${list ? '[' : '{'}` },
    ...all.flatMap(([name, one], at) => lines(one, path + step(value, name), `${indent}  `, list ? '' : `${JSON.stringify(name)}: `, at < all.length - 1 ? ',' : '')),
    { path, text: `${indent}${list ? ']' : '}'}${after}` },
  ];
}

/** A value that changed, in words that are short enough for a line. */
export interface Change {
  readonly name: string;
  readonly before: string;
  readonly after: string;
}

const short = (value: string | undefined) => (value === undefined ? 'nothing' : value.length > 40 ? `${value.slice(0, 39)}…` : value);

/** changesIn are the first changes of an event, without those that are in every event, and how many more there are. */
export function changesIn(former: unknown, now: unknown, changed: ReadonlySet<string>): { first: Change[]; more: number } {
  const [before, after] = [flat(former), flat(now)];
  const telling = [...changed].filter((path) => !/\.(version|id|cursor|readToken|upTo)$/.test(path));
  const paths = telling.length > 0 ? telling : [...changed];
  const first = paths.slice(0, 4).map((path) => ({
    name: path.replace(/^\.data\.\w+\.?/, '').replace(/^\./, '') || path,
    before: short(before.get(path)),
    after: short(after.get(path)),
  }));
  return { first, more: paths.length - first.length };
}

/** count is how many values an answer has. */
export const count = (answer: unknown) => flat(answer).size;
