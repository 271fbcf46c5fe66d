/**
 * The parts for every client of Tidings, whatever its framework: the guard that keeps late answers out, the socket that stays
 * connected, the fragment of the badges, and the types of the schema for caches.
 */
export { clear } from './clear.js';
export { escapeKey, userId } from './ids.js';
export { createTidings, type Answer, type GraphQLError, type Store, type Tidings, type TidingsOptions } from './tidings.js';
export { BADGES, possibleTypes, type BadgeCount, type Badges, type Precision, type Source } from './schema.js';
export { createSocket, type SocketOptions } from './socket.js';
export { createTokens, type Tokens, type TokenSource } from './token.js';
export { createGuard, isOlder, type Guard, type Versioned } from './version.js';
