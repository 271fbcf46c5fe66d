import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { ApolloClient, ApolloLink, CombinedGraphQLErrors, HttpLink, InMemoryCache, gql, type TypePolicies } from '@apollo/client';
import { PersistedQueryLink } from '@apollo/client/link/persisted-queries';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { getMainDefinition } from '@apollo/client/utilities';
import { createSocket } from '@tidings/client';
import { possibleTypes, typePolicies } from '@tidings/client/apollo';
import WebSocket from 'ws';
import { textOf, type Name } from './documents.js';
import { prove, Refusal, type Driver, type Setting } from './scenarios.js';
import { Server } from './server.js';

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
