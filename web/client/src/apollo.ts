import type { FieldPolicy, Reference, TypePolicies, TypePolicy } from '@apollo/client/cache';
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

/** list joins pages as Apollo does, except that the cursors of an empty list are null, because the server refuses empty ones. */
function list(filters: readonly string[]): FieldPolicy {
  const { read, ...policy } = relayStylePagination([...filters]);
  return {
    ...policy,
    read(existing, options) {
      const joined = typeof read === 'function' && read(existing, options);
      if (!joined) return undefined;
      const { startCursor, endCursor } = joined.pageInfo ?? {};
      return { ...joined, pageInfo: { ...joined.pageInfo, startCursor: startCursor || null, endCursor: endCursor || null } };
    },
  } as FieldPolicy;
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
