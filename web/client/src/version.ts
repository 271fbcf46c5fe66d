/** The fields by which the guard orders badges. */
export interface Versioned {
  readonly id: string;
  readonly version: string;
}

/** isOlder reports whether a version is before another. Versions compare as text; if one is missing there is no order. */
export function isOlder(version: unknown, than: unknown): boolean {
  return typeof version === 'string' && typeof than === 'string' && version < than;
}

/** isBadges recognises badges by their global id, because Relay does not ask for __typename. An answer without id or version cannot be ordered. */
export function isBadges(value: object): value is Versioned {
  const { id, version } = value as Partial<Record<string, unknown>>;
  return typeof id === 'string' && id.startsWith('badges:') && typeof version === 'string';
}

/** versionIn finds the version of the first badges in the data of an answer; undefined when there is none. */
export function versionIn(data: unknown): string | undefined {
  if (typeof data !== 'object' || data === null) return undefined;
  if (isBadges(data)) return data.version;
  for (const value of Object.values(data)) {
    const found = versionIn(value);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** over merges newer data over older: fields that the newer data was not asked for keep their older values. */
export function over(older: unknown, newer: unknown): unknown {
  if (!isObject(older) || !isObject(newer)) return newer;
  const result = { ...older, ...newer };
  for (const name of Object.keys(newer)) if (name in older) result[name] = over(older[name], newer[name]);
  return result;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A guard passes the data of answers through, and keeps late badges out of it. */
export type Guard = <T>(data: T) => T;

/**
 * createGuard makes a guard for all answers to one user: of queries, mutations and subscriptions. Badges with an older version
 * than earlier ones get the fields of the newer badges; a field that the newer badges do not have stays as it is. Badges that
 * are not late are passed on without a copy. A guard sees answers
 * and no queries: a field is what it is called there, so that aliases of the fields of badges mix their counts.
 *
 * onBadges is called with badges that are not late.
 */
export function createGuard(onBadges?: (badges: Versioned) => void): Guard {
  const held = new Map<string, Map<string, { version: string; value: unknown }>>();

  function order(badges: Versioned): Versioned {
    let fields = held.get(badges.id);
    if (!fields) held.set(badges.id, (fields = new Map()));
    let result: Record<string, unknown> | undefined;
    for (const [name, value] of Object.entries(badges)) {
      const newest = fields.get(name);
      if (newest && isOlder(badges.version, newest.version)) {
        result ??= { ...badges };
        result[name] = over(value, newest.value);
      } else {
        fields.set(name, { version: badges.version, value });
      }
    }
    if (result) return result as unknown as Versioned;
    onBadges?.(badges);
    return badges;
  }

  return function guard<T>(data: T): T {
    if (typeof data !== 'object' || data === null) return data;
    if (isBadges(data)) return order(data) as T;
    let copy: Record<string, unknown> | undefined;
    for (const [name, value] of Object.entries(data)) {
      const guarded = guard(value);
      if (guarded === value) continue;
      copy ??= (Array.isArray(data) ? [...data] : { ...data }) as Record<string, unknown>;
      copy[name] = guarded;
    }
    return (copy ?? data) as T;
  };
}
