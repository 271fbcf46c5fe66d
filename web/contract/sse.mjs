// Proves what the official client of the GraphQL over SSE protocol is refused, in both of its modes, by the server whose address is
// the argument: it must serve in development mode. That pushes arrive is proved in web/client/tests/graphql-sse.test.ts.
import assert from 'node:assert/strict';
import { createClient } from 'graphql-sse';

const url = process.argv[2] + '/graphql';

for (const singleConnection of [false, true]) {
  const client = createClient({ url, headers: { authorization: 'Bearer dev:reader' }, singleConnection, retryAttempts: 0 });

  // Errors arrive as results, or as the refusal of the operation.
  const wrong = client.iterate({ query: 'subscription { badgesChanged { nothing } }' }).next();
  if (singleConnection) await assert.rejects(wrong, /400/);
  else assert.equal((await wrong).value.errors[0].extensions.code, 'INVALID');
  client.dispose();
}

// A stranger's subscription is refused, as on a WebSocket.
const stranger = createClient({ url, retryAttempts: 0 });
const { value } = await stranger.iterate({ query: 'subscription { badgesChanged { version } }' }).next();
assert.equal(value.errors[0].extensions.code, 'UNAUTHENTICATED');
await assert.rejects(
  createClient({ url, headers: { authorization: 'Bearer nonsense' }, retryAttempts: 0 }).iterate({ query: '{ __typename }' }).next(),
  /401/,
);
console.log('graphql-sse: refusals are as the protocol says');
process.exit(0);
