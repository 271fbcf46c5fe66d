/** What the server says about itself, in the attributes of the body. */
export const page = {
  endpoint: new URL(document.body.dataset.endpoint ?? '/graphql', location.href).href,
  mode: (document.body.dataset.mode ?? 'production') as 'production' | 'development' | 'demo',
  version: document.body.dataset.version ?? '',
};

/** The person whose phones are shown, where a development token can name one. */
export const VIEWER = 'mia';

/**
 * The token of the phones, and the key of their person: those of development, or what the visitor of a production server gives. They
 * are kept in memory only.
 */
export const session = page.mode === 'production' ? { token: '', viewer: '' } : { token: `dev:${VIEWER}`, viewer: VIEWER };

/** The token by which the levers act for others, as a host application does. */
export const HOST = 'dev:host:ingest';
