import type { Exchange } from '@urql/core';
import type { Cache, FieldInfo, KeyingConfig, Resolver, ResolverConfig } from '@urql/exchange-graphcache';
import { map, pipe } from 'wonka';
import { connections, possibleTypes } from './schema.js';
import { createGuard, type Guard } from './version.js';

/**
 * keys for Graphcache: what has no id is part of what holds it. It answers for any type, so it cannot be spread into another
 * object: add the keys of other types with Object.assign(keys, { Type: (data) => ... }).
 */
export const keys: KeyingConfig = new Proxy({} as KeyingConfig, {
  // A Node is left to Graphcache, which warns if a selection lacks its id.
  get: (own, type) => own[type as string] ?? (possibleTypes.Node!.includes(type as string) ? undefined : ({ id }: { id?: string }) => id ?? null),
});

/** resolvers for Graphcache: pages of a list become one list. */
export const resolvers: ResolverConfig = Object.fromEntries(
  Object.entries(connections).map(([type, fields]) => [
    type,
    Object.fromEntries(Object.entries(fields).map(([field, filters]) => [field, pages(filters)])),
  ]),
);

/** guardExchange keeps late badges out of the cache. It comes after cacheExchange and before the exchanges that fetch. */
export function guardExchange(guard: Guard = createGuard()): Exchange {
  return ({ forward }) =>
    (operations) =>
      pipe(
        forward(operations),
        map((result) => {
          const data = guard(result.data);
          return data === result.data ? result : { ...result, data };
        }),
      );
}

interface Page {
  args: Record<string, unknown> | null;
  key: string;
}

/**
 * pages joins a page with those that follow it by `after`, and those that precede it by `before`, as far as each begins where
 * the other ends: a first page that was fetched again does not go on with what followed the former one. What a connection
 * has beside its edges is that of the last page, as sessionId and readToken.
 */
function pages(filters: readonly string[]): Resolver {
  return (_parent, args, cache, { parentKey, fieldName }) => {
    const asked = cache.resolve(parentKey, fieldName, args);
    if (typeof asked !== 'string') return asked; // not there: Graphcache asks the server
    const same = (field: FieldInfo) =>
      field.fieldName === fieldName && filters.every((name) => JSON.stringify(field.arguments?.[name]) === JSON.stringify(args[name]));
    const list = cache
      .inspectFields(parentKey)
      .filter(same)
      .flatMap(({ arguments: given, fieldKey }): Page[] => {
        const key = cache.resolve(parentKey, fieldKey);
        return typeof key === 'string' ? [{ args: given, key }] : [];
      });
    const chain: string[] = [asked];
    const link = (argument: 'after' | 'before', edge: 'endCursor' | 'startCursor', forward: boolean) => {
      for (;;) {
        const cursor: unknown = pageInfo(cache, chain.at(forward ? -1 : 0)!)[edge];
        const next = typeof cursor === 'string' && list.findLast((page) => page.args?.[argument] === cursor && !chain.includes(page.key));
        if (!next) return;
        forward ? chain.push(next.key) : chain.unshift(next.key);
      }
    };
    // Back from the page that was asked for to the first one.
    for (let after: unknown = args.after; after; ) {
      const former = list.findLast((page) => pageInfo(cache, page.key).endCursor === after && !chain.includes(page.key));
      if (!former) break;
      chain.unshift(former.key);
      after = former.args?.after;
    }
    link('after', 'endCursor', true);
    link('before', 'startCursor', false);
    return join(cache, chain);
  };
}

function join(cache: Cache, chain: string[]): Record<string, unknown> {
  const first = chain[0]!;
  const last = chain.at(-1)!;
  const result: Record<string, unknown> = { __typename: cache.resolve(last, '__typename') };
  for (const { fieldName } of cache.inspectFields(last)) result[fieldName] = cache.resolve(last, fieldName);
  for (const name of ['edges', 'nodes']) {
    if (name in result) result[name] = [...new Set(chain.flatMap((page) => (cache.resolve(page, name) as string[] | null) ?? []))];
  }
  const { startCursor, hasPreviousPage } = pageInfo(cache, first);
  result.pageInfo = { ...pageInfo(cache, last), startCursor, hasPreviousPage };
  return result;
}

function pageInfo(cache: Cache, page: string): Record<string, unknown> {
  const key = cache.resolve(page, 'pageInfo') as string;
  const names = ['__typename', 'endCursor', 'hasNextPage', 'startCursor', 'hasPreviousPage'];
  return Object.fromEntries(names.map((name) => [name, key ? cache.resolve(key, name) : undefined]));
}
