import { createStore, type Answer, type GraphQLError, type Store, type Tidings } from './tidings.js';

/** A page as the server returns it. */
export interface Connection<Node> {
  readonly edges: readonly { readonly node: Node }[];
  readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
}

/** The state of a list. */
export interface ListState<Node, Extra> {
  readonly nodes: readonly Node[];
  readonly hasNextPage: boolean;
  /** Whether a page is being loaded. */
  readonly loading: boolean;
  /** The error of the last page; undefined if it was loaded. */
  readonly error: Error | undefined;
  /** The first page; undefined until it is loaded. */
  readonly top: (Connection<Node> & Extra) | undefined;
  /** The fields of the last page beside its edges, such as sessionId and readToken; undefined before the first page. */
  readonly page: (Connection<Node> & Extra) | undefined;
}

/** A list that grows page by page. */
export interface List<Node, Extra> extends Store<ListState<Node, Extra>> {
  /** loadNext adds the next page, the first one at first. It does nothing while a page is being loaded. */
  loadNext(): Promise<void>;
  /** refresh begins again with the first page; the old list stays until that page is loaded. */
  refresh(): Promise<void>;
  /** replace shows nodes in place of those of the same ids, also of a page that is being loaded. */
  replace(nodes: readonly Node[]): void;
}

/** createList makes a list of the viewer's, of a query with $first and $after; read takes the page out of the answer. */
export function createList<Node extends { readonly id: string }, Extra>(
  tidings: Pick<Tidings, 'request'>,
  query: string,
  variables: object,
  read: (data: never) => (Connection<Node> & Extra) | null | undefined,
): List<Node, Extra> {
  const store = createStore<ListState<Node, Extra>>({ nodes: [], hasNextPage: true, loading: false, error: undefined, top: undefined, page: undefined });
  let turn = 0; // counts the requests: the answer of a former one changes nothing
  const replaced = new Map<string, Node>(); // while a page is being loaded: it can have been read before

  async function load(first: boolean): Promise<void> {
    const own = ++turn;
    replaced.clear();
    store.set({ ...store.get(), loading: true });
    const after = first ? null : store.get().page?.pageInfo.endCursor;
    let page: (Connection<Node> & Extra) | null | undefined, error: Error | undefined;
    try {
      const answer: Answer<never> = await tidings.request<never>(query, { ...variables, after });
      page = answer.data && read(answer.data);
      if (!page) error = failure(answer.errors);
    } catch (reason) {
      error = reason as Error;
    }
    if (own !== turn) return;
    const former = store.get();
    if (!page) return store.set({ ...former, loading: false, error });
    const nodes = new Map((first ? [] : former.nodes).map((node) => [node.id, node]));
    for (const { node } of page.edges) nodes.set(node.id, replaced.get(node.id) ?? node);
    store.set({ nodes: [...nodes.values()], hasNextPage: page.pageInfo.hasNextPage, loading: false, error: undefined, top: first ? page : former.top, page });
  }

  return {
    get: store.get,
    subscribe: store.subscribe,
    refresh: () => load(true),
    async loadNext() {
      const { loading, hasNextPage, page } = store.get();
      if (!loading && hasNextPage) await load(!page);
    },
    replace(nodes) {
      const newer = new Map(nodes.map((node) => [node.id, node]));
      for (const node of nodes) replaced.set(node.id, node);
      store.set({ ...store.get(), nodes: store.get().nodes.map((node) => newer.get(node.id) ?? node) });
    },
  };
}

/** failure makes an error of the server's errors. */
export function failure(errors: readonly GraphQLError[] | undefined): Error {
  return Object.assign(new Error(errors?.[0]?.message ?? 'The server has no answer'), { errors });
}
