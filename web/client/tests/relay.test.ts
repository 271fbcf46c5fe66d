import { createOperationDescriptor, Environment, fetchQuery, Network, RecordSource, requestSubscription, Store, commitMutation, type ConcreteRequest, type GraphQLResponse } from 'relay-runtime';
import { createSocket } from '@tidings/client';
import { guardNetwork, subscribeWith, type RelayNetwork } from '@tidings/client/relay';
import WebSocket from 'ws';
import type { Name } from './documents.js';
import badges from './generated/relay/TidingsBadgesQuery.graphql.js';
import board from './generated/relay/TidingsBoardQuery.graphql.js';
import feed from './generated/relay/TidingsFeedQuery.graphql.js';
import follow from './generated/relay/TidingsFollowMutation.graphql.js';
import mark from './generated/relay/TidingsMarkMutation.graphql.js';
import unfollow from './generated/relay/TidingsUnfollowMutation.graphql.js';
import watchBadges from './generated/relay/TidingsWatchBadgesSubscription.graphql.js';
import watchBoard from './generated/relay/TidingsWatchBoardSubscription.graphql.js';
import { prove, type Driver, type Setting } from './scenarios.js';

const requests: Record<Name, ConcreteRequest> = {
  TidingsBadgesQuery: badges,
  TidingsBoardQuery: board,
  TidingsFeedQuery: feed,
  TidingsFollowMutation: follow,
  TidingsMarkMutation: mark,
  TidingsUnfollowMutation: unfollow,
  TidingsWatchBadgesSubscription: watchBadges,
  TidingsWatchBoardSubscription: watchBoard,
};

interface Change {
  variables: Record<string, unknown>;
  response: Record<string, unknown>;
  rawResponse: Record<string, unknown>;
}

prove('Relay', ({ url, user, guard, fetch }: Setting): Driver => {
  const socket = createSocket({ url, token: () => `dev:${user}`, webSocketImpl: WebSocket, minWait: 20, maxWait: 100 });
  const unguarded: RelayNetwork = {
    async fetch({ text }, variables) {
      const headers = { 'content-type': 'application/json', authorization: `Bearer dev:${user}` };
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ query: text, variables }) });
      return (await response.json()) as GraphQLResponse;
    },
    subscribe: subscribeWith(socket),
  };
  const network = guard ? guardNetwork(unguarded) : unguarded;
  const environment = new Environment({ network: Network.create(network.fetch, network.subscribe), store: new Store(new RecordSource()) });
  const query = (name: Name, variables: object) => {
    environment.retain(createOperationDescriptor(requests[name], variables));
    return fetchQuery(environment, requests[name], variables, { fetchPolicy: 'network-only' }).toPromise();
  };
  const read = (name: Name, variables: object) => environment.lookup(createOperationDescriptor(requests[name], variables).fragment);
  return {
    query: (name, variables = {}) => query(name, variables),
    next: (name, variables, after) => query(name, { ...variables, after }),
    read: (name, variables = {}) => read(name, variables).data,
    watch(name, variables, shown) {
      const snapshot = read(name, variables);
      shown(snapshot.data);
      const watching = environment.subscribe(snapshot, ({ data }) => shown(data));
      return () => watching.dispose();
    },
    mutate: (name, variables, badges) =>
      new Promise((resolve, reject) => {
        commitMutation<Change>(environment, {
          mutation: requests[name],
          variables: { ...variables },
          ...(badges && { optimisticResponse: { markHomeFeedSeen: { badges } } }),
          onCompleted: (data, errors) => (errors ? reject(new Error(errors[0]?.message)) : resolve(data)),
          onError: reject,
        });
      }),
    subscribe(name, variables, next = () => {}) {
      const watching = requestSubscription(environment, { subscription: requests[name], variables: { ...variables }, onNext: (data) => data && next(data) });
      return () => watching.dispose();
    },
    close: () => void socket.dispose(),
  };
});
