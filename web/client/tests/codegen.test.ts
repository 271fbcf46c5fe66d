// What GraphQL Code Generator makes of the schema and the fragment, compiled by tsc --strict and sent to a real server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { TypedDocumentNode } from '@graphql-typed-document-node/core';
import { print } from 'graphql';
import { clear, type Badges } from '@tidings/client';
import {
  TidingsBadgesQueryDocument,
  TidingsBoardQueryDocument,
  TidingsFeedQueryDocument,
  TidingsFollowMutationDocument,
  TidingsMarkMutationDocument,
  TidingsUnfollowMutationDocument,
  type TidingsBadgesFragment,
} from './generated/codegen/graphql.js';
import { Server } from './server.js';
import { until } from './until.js';

let server: Server;
before(async () => void (server = await Server.start()));
after(() => server?.stop());

const ask = <Data, Variables extends object>(user: string, document: TypedDocumentNode<Data, Variables>, variables: Variables): Promise<Data> =>
  server.ask(user, print(document), variables);

// The types of the package and those that are generated from its fragment are the same: this is compiled, and never called.
export const sameTypes = [(badges: Badges): TidingsBadgesFragment => badges, (badges: TidingsBadgesFragment): Badges => badges];

test('the generated documents are answered as their types say', async () => {
  await server.ask('author', '{ viewer { id } }');
  const { follow } = await ask('reader', TidingsFollowMutationDocument, { input: { userId: 'user:author' } });
  assert.deepEqual([follow?.changed, follow?.user?.key], [true, 'author']);
  const { viewer } = await ask('reader', TidingsFeedQueryDocument, { first: 10 });
  assert.deepEqual(viewer?.homeFeed?.edges.map(({ node }) => node.author.name), []);
  const board = await ask('reader', TidingsBoardQueryDocument, {});
  assert.equal(typeof board.viewer?.liveBoard?.sessionId, 'string');
  const { markHomeFeedSeen } = await ask('reader', TidingsMarkMutationDocument, { input: {} });
  const badges: Badges = markHomeFeedSeen!.badges!;
  assert.equal(badges.homeFeed.precision, 'EXACT');
  assert.deepEqual((await ask('reader', TidingsBadgesQueryDocument, {})).viewer?.badges, badges);
  assert.equal((await ask('reader', TidingsUnfollowMutationDocument, { input: { userId: 'user:author' } })).unfollow?.changed, true);
});

test('clear predicts what a mark answers', async () => {
  await server.ask('writer', '{ viewer { id } }');
  await ask('predictor', TidingsFollowMutationDocument, { input: { userId: 'user:writer' } });
  await server.ask('writer', 'mutation P($input: PublishPostInput!) { publishPost(input: $input) { post { id } } }', { input: { body: 'one' } });
  const now = async () => (await ask('predictor', TidingsBadgesQueryDocument, {})).viewer!.badges!;
  const badges = await until(now, ({ total }) => total.value === 1, 'the post does not count');
  const { markHomeFeedSeen } = await ask('predictor', TidingsMarkMutationDocument, { input: {} });
  assert.deepEqual({ ...clear(badges, 'homeFeed'), version: '' }, { ...markHomeFeedSeen!.badges!, version: '' });
});
