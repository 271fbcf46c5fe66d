import { ApolloClient, ApolloLink, HttpLink, InMemoryCache, gql, type TypePolicies } from '@apollo/client';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { getMainDefinition } from '@apollo/client/utilities';
import { createSocket } from '@tidings/client';
import { possibleTypes, typePolicies } from '@tidings/client/apollo';
import WebSocket from 'ws';
import { textOf, type Name } from './documents.js';
import { prove, type Driver, type Setting } from './scenarios.js';

prove('Apollo Client', ({ url, user, guard, fetch }: Setting): Driver => {
  const socket = createSocket({ url, token: () => `dev:${user}`, webSocketImpl: WebSocket, minWait: 20, maxWait: 100 });
  const { Badges: _, ...unguarded } = typePolicies;
  const client = new ApolloClient({
    cache: new InMemoryCache({ possibleTypes, typePolicies: (guard ? typePolicies : unguarded) as TypePolicies }),
    link: ApolloLink.split(
      ({ query }) => (getMainDefinition(query) as { operation?: string }).operation === 'subscription',
      new GraphQLWsLink(socket),
      new HttpLink({ uri: url, fetch, headers: { authorization: `Bearer dev:${user}` } }),
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
      return (await client.mutate({ mutation: document(name), variables, optimisticResponse })).data;
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
});
