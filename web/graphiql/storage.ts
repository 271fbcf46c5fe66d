/** What the browser keeps: for this tab, and for all of them. Where it keeps nothing, the page remembers until it is left. */

type Store = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> & { keys(): string[] };

/** Whether the browser refuses to keep anything. */
export let blocked = false;

function open(name: 'sessionStorage' | 'localStorage'): Store {
  try {
    const storage = window[name];
    storage.setItem('tidings:probe', '1');
    storage.removeItem('tidings:probe');
    return {
      getItem: (key) => storage.getItem(key),
      setItem: (key, value) => storage.setItem(key, value),
      removeItem: (key) => storage.removeItem(key),
      keys: () => Object.keys(storage),
    };
  } catch {
    blocked = true;
    const kept = new Map<string, string>();
    return {
      getItem: (key) => kept.get(key) ?? null,
      setItem: (key, value) => void kept.set(key, value),
      removeItem: (key) => void kept.delete(key),
      keys: () => [...kept.keys()],
    };
  }
}

export const ofTab = open('sessionStorage');
const shared = open('localStorage');

// The editors belong to the browser tab, so that two tabs can be two users. The rest (theme, history, sizes) is shared.
const editors = new Set(['query', 'variables', 'headers', 'operationName', 'tabState'].map((name) => `graphiql:${name}`));
const histories = new Set(['graphiql:queries', 'graphiql:favorites']);
const storeOf = (key: string) => (editors.has(key) ? ofTab : shared);
const ours = (store: Store) => store.keys().filter((key) => key.startsWith('graphiql:'));

/** withoutHeaders is a history without the Headers editor, where GraphiQL puts it: a token must not stay. */
function withoutHeaders(history: string): string {
  return JSON.stringify(JSON.parse(history), (name, value: unknown) => (name === 'headers' ? undefined : value));
}

/** The storage of GraphiQL. */
export const graphiqlStorage = {
  getItem: (key: string) => storeOf(key).getItem(key),
  setItem: (key: string, value: string) => storeOf(key).setItem(key, histories.has(key) ? withoutHeaders(value) : value),
  removeItem: (key: string) => storeOf(key).removeItem(key),
  get length() {
    return ours(ofTab).length + ours(shared).length;
  },
  clear: () => [ofTab, shared].forEach((store) => ours(store).forEach((key) => store.removeItem(key))),
};
