/** escapeKey writes a key as it stands in IDs and headers: percent-encoded, except for letters, digits, '-', '.', '_' and '~'. */
export const escapeKey = (key: string): string =>
  encodeURIComponent(key).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

/** userId is the ID of the user whom the application knows by a key. */
export const userId = (key: string): string => `user:${escapeKey(key)}`;
