import { Client, createRequest, fetchExchange, gql, subscriptionExchange } from '@urql/core';
import { cacheExchange, type OptimisticMutationConfig } from '@urql/exchange-graphcache';
import { createSocket, type Badges } from '@tidings/client';
import { guardExchange, keys, resolvers } from '@tidings/client/urql';
import { pipe, subscribe } from 'wonka';
import WebSocket from 'ws';
import { textOf, type Name } from './documents.js';
import { prove, Refusal, type Driver, type Setting } from './scenarios.js';

prove('urql with Graphcache', ({ url, user, guard, fetch }: Setting): Driver => {
  const socket = createSocket({ url, token: () => `dev:${user}`, webSocketImpl: WebSocket, minWait: 20, maxWait: 100 });
  let predicted: Badges | undefined;
  const optimistic: OptimisticMutationConfig = {
    markHomeFeedSeen: () => (predicted && { __typename: 'MarkHomeFeedSeenPayload', badges: { ...predicted, __typename: 'Badges' } }) as never,
  };
  const client = new Client({
    url,
    fetch,
    preferGetMethod: false,
    fetchOptions: { headers: { authorization: `Bearer dev:${user}` } },
    exchanges: [
      cacheExchange({ keys, resolvers, optimistic }),
      ...(guard ? [guardExchange()] : []),
      fetchExchange,
      subscriptionExchange({
        forwardSubscription: ({ query, variables }) => ({ subscribe: (sink) => ({ unsubscribe: socket.subscribe({ query: query!, variables }, sink as never) }) }),
      }),
    ],
  });
  const document = (name: Name) => gql(textOf(name));
  const query = async (name: Name, variables: object) => {
    const { data, error } = await client.query(document(name), variables, { requestPolicy: 'network-only' });
    if (error) throw error;
    return data;
  };
  return {
    query: (name, variables = {}) => query(name, variables),
    next: (name, variables, after) => query(name, { ...variables, after }),
    read: (name, variables = {}) => client.readQuery(document(name), variables)?.data,
    watch(name, variables, shown) {
      const watching = pipe(client.executeQuery(createRequest(document(name), variables)), subscribe(({ data }) => shown(data)));
      return () => watching.unsubscribe();
    },
    async mutate(name, variables, badges) {
      predicted = badges;
      const { data, error } = await client.mutation(document(name), variables);
      if (error) throw new Refusal(error.graphQLErrors);
      return data;
    },
    subscribe(name, variables, next = () => {}) {
      const watching = pipe(client.subscription(document(name), variables), subscribe(({ data }) => data && next(data)));
      return () => watching.unsubscribe();
    },
    close: () => void socket.dispose(),
  };
});
