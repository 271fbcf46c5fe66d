// A driver for the clients without a cache: it shows what was answered last, as a front end of one's own would that has the package's guard.
import { createGuard } from '@tidings/client';
import { textOf, type Name } from './documents.js';
import { Refusal, type Driver } from './scenarios.js';

/** A client that sends operations of each kind and holds nothing. */
export interface Streams {
  subscribe(query: string, variables: object, sink: { next(answer: any): void; error(reason: unknown): void; complete(): void }): () => void;
  close(): void;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/** objects are all objects within a value, at every depth. */
function* objects(value: unknown): Generator<Record<string, unknown>> {
  if (!isObject(value)) return;
  if (!Array.isArray(value)) yield value;
  for (const part of Object.values(value)) yield* objects(part);
}

/** screens makes a driver of such a client. */
export function screens(streams: Streams): Driver {
  const held = new Map<string, any>();
  const guard = createGuard();
  const keyOf = (name: Name, variables: object) => name + JSON.stringify(variables);

  /** take hands an answer to all screens: what they show of the same objects becomes what the answer says. */
  function take(answer: any): any {
    if (answer.errors) throw new Refusal(answer.errors);
    const data = guard(answer.data);
    const known = new Map([...objects(data)].filter(({ id }) => typeof id === 'string').map((object) => [object['id'], object]));
    for (const shown of objects([...held.values()])) {
      const now = known.get(shown['id']);
      for (const [name, value] of Object.entries(now ?? {})) {
        if (name in shown && (!isObject(value) || String(shown['id']).startsWith('badges:'))) shown[name] = structuredClone(value);
      }
    }
    return data;
  }

  function once(text: string, variables: object): Promise<any> {
    return new Promise((resolve, reject) => {
      let data: any;
      const next = (answer: any) => {
        try {
          data = take(answer);
        } catch (refusal) {
          reject(refusal);
        }
      };
      streams.subscribe(text, variables, { next, error: reject, complete: () => resolve(data) });
    });
  }

  return {
    async query(name, variables = {}) {
      const data = await once(textOf(name), variables);
      held.set(keyOf(name, variables), structuredClone(data));
      return data;
    },
    async next(name, variables, after) {
      const page = (await once(textOf(name), { ...variables, after })).viewer;
      const { viewer } = held.get(keyOf(name, variables));
      for (const [list, value] of Object.entries<any>(page)) {
        if (value?.edges) viewer[list] = { ...value, edges: [...viewer[list].edges, ...value.edges] };
      }
    },
    read: (name, variables = {}) => held.get(keyOf(name, variables)),
    mutate: (name, variables) => once(textOf(name), variables),
    subscribe(name, variables, next = () => {}) {
      let stopped = false;
      const error = (reason: unknown) => {
        if (!stopped) throw reason; // ends the test: no scenario expects it
      };
      const stop = streams.subscribe(textOf(name), variables, { next: (answer) => next(take(answer)), error, complete() {} });
      return () => {
        stopped = true;
        stop();
      };
    },
    close: () => streams.close(),
  };
}
