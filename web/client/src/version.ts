/** What every answer that carries badges says of them. */
export interface Versioned {
  readonly id: string;
  readonly version: string;
}

/** isOlder says whether a version comes before another. Versions compare as text; without both there is no order. */
export function isOlder(version: unknown, than: unknown): boolean {
  return typeof version === 'string' && typeof than === 'string' && version < than;
}

/** isBadges tells badges by their global id: Relay does not ask for __typename. An answer without id or version cannot be ordered. */
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

/** over lays newer data over older: what the newer has counts, and what it was not asked for is that of the older. */
export function over(older: unknown, newer: unknown): unknown {
  if (!isObject(older) || !isObject(newer)) return newer;
  const result = { ...older, ...newer };
  for (const name of Object.keys(newer)) if (name in older) result[name] = over(older[name], newer[name]);
  return result;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A guard passes the data of answers through, and keeps what is late out of it. */
export type Guard = <T>(data: T) => T;

/**
 * createGuard makes a guard for all that one user receives, whatever it came by: queries, mutations, subscriptions. Badges
 * of an older version than those that passed before leave with the fields of the newer ones; a field that the newer ones do
 * not have stays as it came, for want of a better one. What is not late is passed on as it is, not copied. A guard sees answers
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
