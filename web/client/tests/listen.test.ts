// listen against a real server that ends subscriptions.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTidings } from '@tidings/client';
import WebSocket from 'ws';
import { Server } from './server.js';
import { until } from './until.js';

let server: Server;
const ends: (() => unknown)[] = [];
before(async () => void (server = await Server.start(['--drain', '1s'])));
after(async () => {
  for (const end of ends) await end();
  await server?.stop();
});

function clientOf(user: string) {
  const tidings = createTidings({ url: server.url, token: () => `dev:${user}`, webSocketImpl: WebSocket, minWait: 20, maxWait: 100 });
  ends.push(() => tidings.socket.dispose());
  return tidings;
}

test('a subscription to a conversation ends with NOT_FOUND when the viewer is removed, and the others go on', async () => {
  await server.ask('bob', '{ viewer { id } }');
  const { createConversation } = await server.ask('alice', 'mutation { createConversation(input: { kind: GROUP, title: "Music", memberIds: ["user:bob"] }) { conversation { id } } }');
  const { id } = createConversation.conversation;
  const say = (body: string) => server.ask('alice', 'mutation S($id: ID!, $body: String!) { sendMessage(input: { conversationId: $id, body: $body }) { message { id } } }', { id, body });
  const bob = clientOf('bob');
  const said: (string | undefined)[] = [];
  const failed: any[] = [];
  const watch = 'subscription W($id: ID!) { conversationChanged(conversationId: $id) { conversation { lastMessage { body } } } }';
  type Change = { conversationChanged: { conversation: { lastMessage: { body: string } | null } } };
  ends.push(bob.listen<Change>(watch, { id }, ({ data }) => said.push(data?.conversationChanged.conversation.lastMessage?.body), (reason) => failed.push(reason)));
  ends.push(bob.badges.subscribe(() => {}));
  await until(() => said.length, (n) => n === 1, 'events');
  await say('hello');
  await until(() => said.at(-1), (last) => last === 'hello', 'the message is not there');
  await server.ask('alice', 'mutation R($id: ID!) { removeMembers(input: { conversationId: $id, userIds: ["user:bob"] }) { conversation { id } } }', { id });
  await until(() => failed.length, (n) => n > 0, 'failures');
  assert.deepEqual(failed.map(([{ extensions }]) => extensions.code), ['NOT_FOUND']);
  const { publishPost } = await server.ask('bob', 'mutation { publishPost(input: { body: "mine" }) { post { id } } }');
  await server.ask('alice', 'mutation L($id: ID!) { likePost(input: { postId: $id }) { changed } }', { id: publishPost.post.id });
  await until(() => bob.badges.get()?.notifications.total.value, (total) => total === 1, 'the badges are not pushed');
});

test('what listens goes on after a drain, on the server that comes next', async () => {
  const carol = clientOf('carol');
  const failed: unknown[] = [];
  const heard: (number | null)[] = [];
  type Change = { homeFeedChanged: { newPosts: { value: number | null } } };
  ends.push(carol.listen<Change>('subscription { homeFeedChanged { newPosts { value } } }', {}, ({ data }) => heard.push(data!.homeFeedChanged.newPosts.value), (reason) => failed.push(reason)));
  await until(() => heard.length, (n) => n === 1, 'events');
  await server.drain();
  await server.restart();
  await server.ask('dan', '{ viewer { id } }');
  await server.ask('carol', 'mutation { follow(input: { userId: "user:dan" }) { changed } }');
  await server.ask('dan', 'mutation { publishPost(input: { body: "mine" }) { post { id } } }');
  await until(() => heard.at(-1), (value) => value === 1, 'the post is not pushed');
  assert.deepEqual(failed, []);
});
