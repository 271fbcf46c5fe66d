import type { BadgeCount, Badges, Source } from './schema.js';

/**
 * clear predicts the badges after a mark of a whole source: its number is 0, and the total is without it. The counts inside the
 * source (categories, types, mentions) and every precision stay as they are until the answer.
 */
export function clear(badges: Badges, source: Source): Badges {
  const part: BadgeCount | { readonly total: BadgeCount } = badges[source];
  const count = 'total' in part ? part.total : part;
  const seen = reduce(count, count.value);
  return {
    ...badges,
    total: count.inTotal ? reduce(badges.total, count.value) : badges.total,
    [source]: 'total' in part ? { ...part, total: seen } : seen,
  };
}

function reduce(count: BadgeCount, by: number | null | undefined): BadgeCount {
  if (typeof count.value !== 'number' || typeof by !== 'number') return count;
  const value = Math.max(0, count.value - by);
  // Only the server can print a display that is not a plain number (99+, a dot, quiet hours), unless the count is 0.
  const display = value === 0 && count.display !== '' ? '0' : count.display === String(count.value) ? String(value) : count.display;
  return { ...count, value, display };
}
