import type { FieldFunctionOptions, FieldMergeFunction, FieldPolicy, FieldReadFunction, Reference, StoreObject, TypePolicies, TypePolicy } from '@apollo/client/cache';
import { relayStylePagination } from '@apollo/client/utilities';
import { connections, possibleTypes } from './schema.js';
import { isOlder } from './version.js';

type KeyFieldsFunction = Extract<TypePolicy['keyFields'], (...args: never[]) => unknown>;

const late = ' late';

/**
 * keyOfBadges keeps late badges out of the entity that screens show. Badges older than those in the cache become an entity of
 * their own, which nothing refers to and gc() collects.
 */
const keyOfBadges: KeyFieldsFunction = (object, { readField, storeObject }) => {
  const { id, version } = (storeObject ?? object) as { id?: string; version?: string };
  if (!id) return false;
  const key = `Badges:${id}`;
  return isOlder(version, readField<string>('version', { __ref: key })) ? key + late : key;
};

/** A reference to late badges becomes one to those in the cache. */
const badges = {
  keyFields: keyOfBadges,
  merge: (_existing: unknown, incoming: Reference | object) =>
    '__ref' in incoming && String(incoming.__ref).endsWith(late) ? { __ref: String(incoming.__ref).slice(0, -late.length) } : incoming,
};

/** An edge in the cache. Its node is a reference, or an object where its id was not asked for. */
type Edge = Readonly<Record<string, unknown>> & { readonly node?: Reference | StoreObject };

/** A page as it was answered, or a list as the cache holds it: without nodes. */
interface Page {
  readonly __typename?: string;
  readonly edges?: readonly Edge[];
  readonly nodes?: readonly (Reference | StoreObject)[];
  readonly pageInfo?: { readonly startCursor?: string; readonly endCursor?: string };
}

/**
 * list joins pages as Apollo does, with these differences:
 *
 * The cursors of an empty list are null, because the server refuses empty ones.
 *
 * Nodes are joined as edges are, because the cache holds them as edges. An edge that was made of a node has a cursor only at the
 * start and at the end of a page. A query for the others asks the server.
 *
 * A page that is read again with the same cursor takes the place of the former one and of what follows it, also where no edge
 * has that cursor: after an empty page, or when pageInfo was not asked for. A page with a cursor that is not known in either
 * way comes at the end of the list, or before its start, as Apollo does it.
 *
 * A list that was asked for neither edges nor nodes is not known to be empty.
 */
function list(filters: readonly string[]): FieldPolicy {
  const { read, merge, ...policy } = relayStylePagination([...filters]) as FieldPolicy & { read: FieldReadFunction; merge: FieldMergeFunction };
  return {
    ...policy,
    read(existing: Page | undefined, options) {
      if (!existing) return undefined;
      const { edges, ...joined } = read({ edges: [], ...existing }, options) as Page & { edges: readonly Edge[] };
      const { startCursor, endCursor } = joined.pageInfo ?? {};
      const nodes = existing.edges?.every(({ node }) => node) ? edges.map(({ node }) => node) : undefined;
      return { ...joined, ...(existing.edges && { edges, nodes }), pageInfo: { ...joined.pageInfo, startCursor: startCursor || null, endCursor: endCursor || null } };
    },
    merge(existing: Page | undefined, incoming: Page | null, options) {
      const side = options.args?.after ? 'after' : 'before';
      const cursor: unknown = options.args?.[side];
      const page = incoming && marked(withEdges(incoming, options), side, cursor);
      const held = existing?.edges ?? [];
      const former = existing && { ...existing, edges: page?.edges ? beside(held, side, cursor) : held };
      const { edges, ...joined } = merge(former, page, options) as Page;
      return existing?.edges || page?.edges ? { ...joined, edges } : joined;
    },
  };
}

/** withEdges moves the nodes of a page into its edges. */
function withEdges({ nodes, ...page }: Page, { mergeObjects }: Pick<FieldFunctionOptions, 'mergeObjects'>): Page {
  if (!nodes) return page;
  const __typename = page.__typename?.replace(/Connection$/, 'Edge');
  if (!page.edges) return { ...page, edges: nodes.map((node) => ({ __typename, node })) };
  if (page.edges.length !== nodes.length) return page; // not of the server, whose nodes are those of the edges
  return { ...page, edges: page.edges.map((edge, i) => ({ ...edge, node: mergeObjects(edge.node!, nodes[i]!) })) };
}

/** marked keeps the cursor that a page was asked for with in the edge next to it, under a name that no field has. */
function marked(page: Page, side: 'after' | 'before', cursor: unknown): Page {
  if (!cursor || !page.edges?.length) return page;
  const edges = [...page.edges];
  const at = side === 'after' ? 0 : edges.length - 1;
  edges[at] = { ...edges[at], [` ${side}`]: cursor };
  return { ...page, edges };
}

/** beside leaves out the page that was asked for with this cursor before, and what is beyond it. */
function beside(edges: readonly Edge[], side: 'after' | 'before', cursor: unknown): readonly Edge[] {
  const at = cursor ? edges.findIndex((edge) => edge[` ${side}`] === cursor) : -1;
  if (at < 0) return edges;
  return side === 'after' ? edges.slice(0, at) : edges.slice(at + 1);
}

function typePoliciesOfSchema(): TypePolicies {
  const policies: TypePolicies = { Badges: badges };
  for (const [type, lists] of Object.entries(connections)) {
    const fields: Record<string, FieldPolicy> = {};
    for (const [field, filters] of Object.entries(lists)) fields[field] = list(filters);
    policies[type] = { ...policies[type], fields };
  }
  return policies;
}

/** The policies for InMemoryCache: pages of a list become one list, and late badges change nothing. Add your own to them. */
export const typePolicies: TypePolicies = typePoliciesOfSchema();

export { possibleTypes };
