// Runs the official client of the GraphQL over SSE protocol, in both of its modes, against the server whose address is the
// argument: it must serve in development mode.
import assert from 'node:assert/strict';
import { createClient } from 'graphql-sse';

const url = process.argv[2] + '/graphql';
const headersOf = (key) => ({ authorization: `Bearer dev:${key}` });
const total = (event) => event.data.badgesChanged.total.value;

for (const singleConnection of [false, true]) {
  const reader = `reader-${singleConnection}`;
  const author = createClient({ url, headers: headersOf(`author-${singleConnection}`), retryAttempts: 0 });
  const client = createClient({ url, headers: headersOf(reader), singleConnection, retryAttempts: 0 });
  const ask = async (from, query, variables) => {
    const { value } = await from.iterate({ query, variables }).next();
    assert.equal(value.errors, undefined, JSON.stringify(value.errors));
    return value.data;
  };

  const { viewer } = await ask(client, '{ viewer { user { key } } }');
  assert.equal(viewer.user.key, reader);

  const badges = client.iterate({ query: 'subscription { badgesChanged { version total { value } } }' });
  const feed = client.iterate({ query: 'subscription { homeFeedChanged { newPosts { value } } }' });
  assert.equal(total((await badges.next()).value), 0);
  assert.notEqual((await feed.next()).value.data.homeFeedChanged, null);

  // A mutation of this client's own, and another user's post that is pushed to both subscriptions.
  await ask(author, '{ viewer { user { key } } }');
  await ask(client, 'mutation F($id: ID!) { follow(input: {userId: $id}) { changed } }', { id: `user:author-${singleConnection}` });
  await ask(author, 'mutation { publishPost(input: {body: "hello"}) { edge { cursor } } }');
  for (let shown = 0; shown !== 1; ) shown = total((await badges.next()).value);
  for (let shown = 0; shown !== 1; ) shown = (await feed.next()).value.data.homeFeedChanged.newPosts.value;
  await badges.return();
  await feed.return();

  // Errors arrive as results, or as the refusal of the operation.
  const wrong = client.iterate({ query: 'subscription { badgesChanged { nothing } }' }).next();
  if (singleConnection) await assert.rejects(wrong, /400/);
  else assert.equal((await wrong).value.errors[0].extensions.code, 'INVALID');

  client.dispose();
  author.dispose();
}

// A stranger's subscription is refused, as on a WebSocket.
const stranger = createClient({ url, retryAttempts: 0 });
const { value } = await stranger.iterate({ query: 'subscription { badgesChanged { version } }' }).next();
assert.equal(value.errors[0].extensions.code, 'UNAUTHENTICATED');
await assert.rejects(
  createClient({ url, headers: { authorization: 'Bearer nonsense' }, retryAttempts: 0 }).iterate({ query: '{ __typename }' }).next(),
  /401/,
);
console.log('graphql-sse: both modes work');
process.exit(0);
