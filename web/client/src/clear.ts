import type { BadgeCount, Badges } from './schema.js';

/** A source of the badges that is looked at as a whole. */
export type Source = 'homeFeed' | 'notifications' | 'siteMessages' | 'announcements' | 'conversations' | 'liveBoard';

/** clear predicts the badges once a source was looked at: its number is 0, and the total has it no more. */
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
  // A display that is no plain number (99+, a dot, quiet hours) is the server's to print, but for the end of it.
  const display = value === 0 && count.display !== '' ? '0' : count.display === String(count.value) ? String(value) : count.display;
  return { ...count, value, display };
}
