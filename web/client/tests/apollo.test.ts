import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ApolloClient, ApolloLink, CombinedGraphQLErrors, HttpLink, InMemoryCache, gql, type TypePolicies } from '@apollo/client';
import { PersistedQueryLink } from '@apollo/client/link/persisted-queries';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { getMainDefinition } from '@apollo/client/utilities';
import { createSocket } from '@tidings/client';
import { possibleTypes, typePolicies } from '@tidings/client/apollo';
import { buildSchema, getNamedType, isObjectType } from 'graphql';
import WebSocket from 'ws';
import { textOf, type Name } from './documents.js';
import { prove, Refusal, type Driver, type Setting } from './scenarios.js';
import { Server, without } from './server.js';
import { until } from './until.js';

const persisting = (more: object = {}) => new PersistedQueryLink({ sha256: (text: string) => createHash('sha256').update(text).digest('hex'), ...more });

const driveWith = (http: (link: HttpLink) => ApolloLink) => ({ url, user, guard, fetch }: Setting): Driver => {
  const socket = createSocket({ url, token: () => `dev:${user}`, webSocketImpl: WebSocket, minWait: 20, maxWait: 100 });
  const { Badges: _, ...unguarded } = typePolicies;
  const client = new ApolloClient({
    cache: new InMemoryCache({ possibleTypes, typePolicies: (guard ? typePolicies : unguarded) as TypePolicies }),
    link: ApolloLink.split(
      ({ query }) => (getMainDefinition(query) as { operation?: string }).operation === 'subscription',
      new GraphQLWsLink(socket),
      http(new HttpLink({ uri: url, fetch, headers: { authorization: `Bearer dev:${user}` } })),
    ),
  });
  const document = (name: Name) => gql(textOf(name));
  return {
    query: async (name, variables = {}) => (await client.query({ query: document(name), variables, fetchPolicy: 'network-only' })).data,
    async next(name, variables, after) {
      const list = client.watchQuery({ query: document(name), variables, fetchPolicy: 'cache-first' });
      const watching = list.subscribe({});
      await list.fetchMore({ variables: { after } });
      watching.unsubscribe();
    },
    read: (name, variables = {}) => client.readQuery({ query: document(name), variables }),
    watch(name, variables, shown) {
      const watching = client.watchQuery({ query: document(name), variables, fetchPolicy: 'cache-first' }).subscribe(({ data }) => shown(data));
      return () => watching.unsubscribe();
    },
    async mutate(name, variables, badges) {
      const optimisticResponse = badges && { markHomeFeedSeen: { __typename: 'MarkHomeFeedSeenPayload', badges } };
      try {
        return (await client.mutate({ mutation: document(name), variables, optimisticResponse })).data;
      } catch (error) {
        throw CombinedGraphQLErrors.is(error) ? new Refusal(error.errors) : error;
      }
    },
    subscribe(name, variables, next = () => {}) {
      const watching = client.subscribe({ query: document(name), variables }).subscribe(({ data }) => next(data));
      return () => watching.unsubscribe();
    },
    close() {
      client.stop();
      void socket.dispose();
    },
  };
};

prove('Apollo Client', driveWith((link) => link));
prove('Apollo Client with automatic persisted queries', driveWith((link) => persisting().concat(link)));

let server: Server;
before(async () => void (server = await Server.start()));
after(() => server?.stop());

for (const method of ['POST', 'GET']) {
  test(`Apollo Client sends the text of a query once, and then its hash, by ${method}`, async () => {
    const sent: [string, boolean][] = [];
    const spy: typeof fetch = (url, init) => {
      sent.push([init!.method!, JSON.stringify([url, init!.body]).includes('viewer')]);
      return fetch(url, init);
    };
    const http = new HttpLink({ uri: server.url, fetch: spy, headers: { authorization: 'Bearer dev:hasher' } });
    const client = new ApolloClient({ cache: new InMemoryCache(), link: persisting({ useGETForHashedQueries: method === 'GET' }).concat(http) });
    for (let i = 0; i < 2; i++) {
      const { data } = await client.query<{ viewer: { id: string } }>({ query: gql(`query By${method} { viewer { id } }`), fetchPolicy: 'network-only' });
      assert.equal(data?.viewer.id, 'viewer:hasher');
    }
    assert.deepEqual(sent, [[method, false], ['POST', true], [method, false]]);
    client.stop();
  });
}

const byNodes = 'nodes { id } pageInfo { hasPreviousPage hasNextPage startCursor endCursor }';
const byEdges = 'edges { node { id } } pageInfo { hasPreviousPage hasNextPage startCursor endCursor }';

/** feed makes a cache for a feed, whose posts are numbers and whose pages are as an answer has them. */
function feed(selection = byNodes) {
  let cache = new InMemoryCache({ possibleTypes, typePolicies });
  const asking = (fields: string) => gql(`query Feed($size: Int, $cursor: String, $above: String) { viewer { id homeFeed(first: $size, after: $cursor, before: $above) { ${fields} } } }`);
  const read = (fields = selection) => cache.readQuery<any>({ query: asking(fields) })?.viewer.homeFeed;
  return {
    get cache() {
      return cache;
    },
    write(variables: { size?: number; cursor?: string; above?: string }, page: object | null, fields = selection) {
      cache.writeQuery({ query: asking(fields), variables, data: { viewer: { __typename: 'Viewer', id: 'viewer:a', homeFeed: page && { __typename: 'PostConnection', ...page } } } });
    },
    read,
    /** posts are those that a screen shows; null if it would have to ask the server. */
    posts: (fields = selection): number[] | null => {
      const list = read(fields);
      return list ? (list.nodes ?? list.edges.map(({ node }: { node: object }) => node)).map(({ id }: { id: string }) => Number(id.slice('post:'.length))) : null;
    },
    reload() {
      const text = JSON.stringify(cache.extract());
      cache = new InMemoryCache({ possibleTypes, typePolicies }).restore(JSON.parse(text));
    },
  };
}

const node = (number: number) => ({ __typename: 'Post', id: `post:${number}` });
const nodes = (...numbers: number[]) => ({ nodes: numbers.map(node) });
const edges = (...numbers: number[]) => ({ edges: numbers.map((number) => ({ __typename: 'PostEdge', node: node(number) })) });
const at = (startCursor: string | null, endCursor: string | null, hasNextPage = true, hasPreviousPage = false) => ({
  pageInfo: { __typename: 'PageInfo', hasPreviousPage, hasNextPage, startCursor, endCursor },
});

/** paged has three pages of two posts; the end of a page is not the cursor of its last post. */
function paged() {
  const list = feed();
  list.write({ size: 2 }, { ...nodes(9, 8), ...at('c9', 'end8') });
  list.write({ size: 2, cursor: 'end8' }, { ...nodes(7, 6), ...at('c7', 'end6') });
  list.write({ size: 2, cursor: 'end6' }, { ...nodes(5, 4), ...at('c5', 'end4', false) });
  return list;
}

test('nodes of pages become one list', () => {
  const list = paged();
  assert.deepEqual(list.posts(), [9, 8, 7, 6, 5, 4]);
  assert.deepEqual(without(list.read().pageInfo), without(at('c9', 'end4', false).pageInfo));
  assert.deepEqual(Object.keys(list.read()).sort(), ['__typename', 'nodes', 'pageInfo']);
});

test('nodes of a page that is read again replace it and what follows it', () => {
  const list = paged();
  list.reload();
  list.write({ size: 2, cursor: 'end4' }, { ...nodes(3), ...at('c3', 'end3', false) });
  assert.deepEqual(list.posts(), [9, 8, 7, 6, 5, 4, 3]);
  list.write({ size: 2, cursor: 'end8' }, { ...nodes(7, 6), ...at('c7', 'end6') });
  assert.deepEqual(list.posts(), [9, 8, 7, 6]);
  assert.equal(list.read().pageInfo.endCursor, 'end6');
  list.write({ size: 2, cursor: 'end6' }, { ...nodes(5), ...at('c5', 'end5') });
  assert.deepEqual(list.posts(), [9, 8, 7, 6, 5]);
});

test('nodes of a first page begin a new list', () => {
  const list = paged();
  list.write({ size: 2 }, { ...nodes(11, 10), ...at('c11', 'end10') });
  assert.deepEqual(list.posts(), [11, 10]);
  assert.equal(list.read().pageInfo.endCursor, 'end10');
  list.write({ size: 2, cursor: 'end10' }, { ...nodes(9, 8), ...at('c9', 'end8') });
  assert.deepEqual(list.posts(), [11, 10, 9, 8]);
  list.write({}, { ...nodes(), ...at(null, null, false) });
  assert.deepEqual(list.posts(), []);
  assert.deepEqual([list.read().pageInfo.startCursor, list.read().pageInfo.endCursor], [null, null]);
});

test('nodes of a page before the first one come in front of it', () => {
  const list = paged();
  list.write({ above: 'c9' }, { ...nodes(11), ...at('c11', 'end11', true, true) });
  assert.deepEqual(list.posts(), [11, 9, 8, 7, 6, 5, 4]);
  assert.deepEqual(without(list.read().pageInfo), without(at('c11', 'end4', false, true).pageInfo));
  list.write({ above: 'c11' }, { ...nodes(13, 12), ...at('c13', 'end12') });
  assert.deepEqual(list.posts(), [13, 12, 11, 9, 8, 7, 6, 5, 4]);
  list.reload();
  list.write({ above: 'c11' }, { ...nodes(12), ...at('c12', 'end12') });
  assert.deepEqual(list.posts(), [12, 11, 9, 8, 7, 6, 5, 4]);
  list.write({ above: 'c9' }, { ...nodes(11, 10), ...at('c11', 'end10') });
  assert.deepEqual(list.posts(), [11, 10, 9, 8, 7, 6, 5, 4]);
  list.write({ cursor: 'end6' }, { ...nodes(5), ...at('c5', 'end5') });
  assert.deepEqual(list.posts(), [11, 10, 9, 8, 7, 6, 5]);
});

for (const [selection, some] of [[byNodes, nodes], [byEdges, edges]] as const) {
  const half = selection.slice(0, 5);

  test(`an empty page adds nothing, and what follows it is read again: ${half}`, () => {
    const list = feed(selection);
    list.write({}, { ...some(), ...at(null, 'end0') });
    list.write({ cursor: 'end0' }, { ...some(9, 8), ...at('c9', 'end8') });
    list.write({ cursor: 'end8' }, { ...some(), ...at(null, 'gap') });
    assert.deepEqual([list.posts(), list.read().pageInfo.endCursor], [[9, 8], 'gap']);
    for (let time = 0; time < 2; time++) {
      list.write({ cursor: 'gap' }, { ...some(7, 6), ...at('c7', 'end6') });
      list.write({ cursor: 'end6' }, { ...some(5), ...at('c5', 'end5', false) });
      assert.deepEqual(list.posts(), [9, 8, 7, 6, 5]);
      list.reload();
    }
    list.write({ cursor: 'end0' }, { ...some(9, 8), ...at('c9', 'end8') });
    assert.deepEqual(list.posts(), [9, 8]);
  });

  test(`pages without pageInfo follow each other, and are read again: ${half}`, () => {
    const list = feed(`${half} { ${half === 'edges' ? 'node { id }' : 'id'} }`);
    list.write({}, some(9, 8));
    list.write({ cursor: 'end8' }, some(7, 6));
    list.write({ cursor: 'end6' }, some(5));
    assert.deepEqual(list.posts(), [9, 8, 7, 6, 5]);
    list.write({ cursor: 'end6' }, some(5, 4));
    assert.deepEqual(list.posts(), [9, 8, 7, 6, 5, 4]);
    list.write({ cursor: 'end8' }, some(7, 6));
    assert.deepEqual(list.posts(), [9, 8, 7, 6]);
  });
}

test('a list that was read by edges goes on by nodes, and the other way round', () => {
  for (const [first, then] of [[edges, nodes], [nodes, edges]] as const) {
    const selection = (some: typeof edges | typeof nodes) => (some === edges ? byEdges : byNodes);
    const list = feed();
    list.write({}, { ...first(9, 8), ...at('c9', 'end8') }, selection(first));
    list.write({ cursor: 'end8' }, { ...then(7, 6), ...at('c7', 'end6') }, selection(then));
    list.write({ cursor: 'end6' }, { ...first(5), ...at('c5', 'end5') }, selection(first));
    for (const shown of [byEdges, byNodes]) assert.deepEqual(list.posts(shown), [9, 8, 7, 6, 5]);
    list.write({ cursor: 'end8' }, { ...first(7), ...at('c7', 'end7') }, selection(first));
    for (const shown of [byEdges, byNodes]) assert.deepEqual(list.posts(shown), [9, 8, 7]);
    list.write({}, { ...then(10), ...at('c10', 'end10') }, selection(then));
    for (const shown of [byEdges, byNodes]) assert.deepEqual(list.posts(shown), [10]);
  }
});

test('edges that were made of nodes have no cursor, so that a screen with cursors asks the server', () => {
  const list = feed();
  list.write({}, { ...nodes(9, 8, 7), ...at('c9', 'end7') });
  assert.deepEqual(list.posts(byEdges), [9, 8, 7]);
  assert.equal(list.posts('edges { cursor node { id } }'), null);
});

test('edges and nodes of one page are the same posts', () => {
  const list = feed('edges { cursor } nodes { id }');
  const page = (...numbers: number[]) => ({ ...nodes(...numbers), edges: numbers.map((number) => ({ __typename: 'PostEdge', cursor: `c${number}` })) });
  list.write({}, page(9, 8));
  list.write({ cursor: 'c8' }, page(7, 6));
  assert.deepEqual(list.posts(), [9, 8, 7, 6]);
  assert.deepEqual(list.read().edges.map(({ cursor }: { cursor: string }) => cursor), ['c9', 'c8', 'c7', 'c6']);
  list.write({ cursor: 'c9' }, page(8)); // after any post, as with edges alone
  assert.deepEqual(list.posts(), [9, 8]);
  list.write({}, { nodes: [{ __typename: 'Post', body: 'new' }], edges: [{ __typename: 'PostEdge', node: node(9) }] }, 'edges { node { id } } nodes { body }');
  assert.equal(list.read('nodes { id body }').nodes[0].body, 'new');
});

test('nodes that have no id are joined too', () => {
  const list = feed('nodes { body } pageInfo { endCursor }');
  const page = (endCursor: string, ...bodies: string[]) => ({ nodes: bodies.map((body) => ({ __typename: 'Post', body })), pageInfo: { __typename: 'PageInfo', endCursor } });
  list.write({}, page('1', 'a', 'b'));
  list.write({ cursor: '1' }, page('2', 'c'));
  list.write({ cursor: '1' }, page('2', 'c', 'd'));
  assert.deepEqual(list.read().nodes.map(({ body }: { body: string }) => body), ['a', 'b', 'c', 'd']);
});

test('a node that is gone from the cache is gone from the list, which goes on where it ended', () => {
  const list = paged();
  list.cache.evict({ id: 'Post:post:8' });
  list.cache.evict({ id: 'Post:post:4' });
  assert.deepEqual(list.posts(), [9, 7, 6, 5]);
  list.write({ cursor: 'end4' }, { ...nodes(3), ...at('c3', 'end3', false) });
  assert.deepEqual(list.posts(), [9, 7, 6, 5, 3]);
  list.write({ cursor: 'end8' }, { ...nodes(7), ...at('c7', 'end7') });
  assert.deepEqual(list.posts(), [9, 7]);
});

test('a page that was refused changes nothing', () => {
  const list = paged();
  for (const variables of [{}, { cursor: 'end8' }, { above: 'c9' }]) {
    list.write(variables, null);
    assert.deepEqual([list.posts(), list.read().pageInfo.endCursor], [[9, 8, 7, 6, 5, 4], 'end4']);
  }
});

test('a list that was asked for neither edges nor nodes is not an empty one', () => {
  const list = feed('building');
  list.write({}, { building: false });
  for (const shown of [byNodes, byEdges]) assert.equal(list.posts(shown), null);
  list.write({}, { ...nodes(9), ...at('c9', 'end9') }, byNodes);
  list.write({ cursor: 'end9' }, { ...nodes(8), ...at('c8', 'end8') }, byNodes);
  list.write({}, { building: true });
  for (const shown of [byNodes, byEdges]) assert.deepEqual(list.posts(shown), [9, 8]);
  assert.equal(list.read().building, true);
});

test('the edges of every list have the type that is made of its name', () => {
  const schema = buildSchema(readFileSync(join(import.meta.dirname, '..', 'generated', 'schema.graphql'), 'utf8'));
  const lists = Object.values(schema.getTypeMap()).filter(isObjectType).filter(({ name }) => name.endsWith('Connection'));
  assert.ok(lists.length > 10);
  for (const type of lists) assert.equal(getNamedType(type.getFields()['edges']!.type).name, type.name.replace(/Connection$/, 'Edge'));
});

test('fetchMore adds the nodes of a page, and adds none twice', async () => {
  await server.ask('nodes-author', '{ viewer { id } }');
  await server.ask('nodes-reader', 'mutation F($input: FollowInput!) { follow(input: $input) { changed } }', { input: { userId: 'user:nodes-author' } });
  for (let i = 0; i < 7; i++) await server.ask('nodes-author', 'mutation P($input: PublishPostInput!) { publishPost(input: $input) { post { id } } }', { input: { body: `post ${i}` } });
  await until(async () => (await server.ask('nodes-reader', textOf('TidingsBadgesQuery'))).viewer.badges.homeFeed.value, (now) => now === 7, 'posts arrive');
  const client = new ApolloClient({
    cache: new InMemoryCache({ possibleTypes, typePolicies }),
    link: new HttpLink({ uri: server.url, headers: { authorization: 'Bearer dev:nodes-reader' } }),
  });
  interface Data {
    viewer: { homeFeed: { nodes: { id: string }[]; pageInfo: { hasNextPage: boolean; endCursor: string } } };
  }
  const query = gql`query Nodes($first: Int, $after: String) { viewer { id homeFeed(first: $first, after: $after) { nodes { id body } pageInfo { hasNextPage endCursor } } } }`;
  const variables = { first: 3 };
  await client.query<Data>({ query, variables });
  const list = client.watchQuery<Data>({ query, variables });
  let screen: (string | undefined)[] = [];
  const watching = list.subscribe(({ data }) => (screen = data?.viewer?.homeFeed?.nodes?.map((node) => node?.id) ?? []));
  const shown = () => client.readQuery<Data>({ query, variables })!.viewer.homeFeed;
  const all: string[] = (await server.ask('nodes-reader', 'query All { viewer { homeFeed(first: 100) { nodes { id } } } }')).viewer.homeFeed.nodes.map(({ id }: { id: string }) => id);
  assert.equal(all.length, 7);
  const ends: string[] = [];
  while (shown().pageInfo.hasNextPage) {
    assert.ok(ends.length < 5);
    ends.push(shown().pageInfo.endCursor);
    await list.fetchMore({ variables: { after: ends.at(-1) } });
  }
  assert.deepEqual(shown().nodes.map(({ id }) => id), all);
  await until(() => screen, (ids) => ids.join() === all.join(), 'the screen does not show all');
  await list.fetchMore({ variables: { after: ends[0] } });
  assert.deepEqual(shown().nodes.map(({ id }) => id), all.slice(0, 6));
  assert.equal(shown().pageInfo.endCursor, ends[1]);
  watching.unsubscribe();
  client.stop();
});
