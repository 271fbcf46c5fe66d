import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { createOperationDescriptor, Environment, fetchQuery, Network, RecordSource, requestSubscription, Store, commitMutation, type ConcreteRequest, type GraphQLResponse } from 'relay-runtime';
import { createSocket } from '@tidings/client';
import { guardNetwork, payloadOf, subscribeWith, type RelayNetwork } from '@tidings/client/relay';
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
import trustedBadges from './generated/trusted/TidingsBadgesQuery.graphql.js';
import trustedBoard from './generated/trusted/TidingsBoardQuery.graphql.js';
import trustedFeed from './generated/trusted/TidingsFeedQuery.graphql.js';
import trustedFollow from './generated/trusted/TidingsFollowMutation.graphql.js';
import trustedMark from './generated/trusted/TidingsMarkMutation.graphql.js';
import trustedUnfollow from './generated/trusted/TidingsUnfollowMutation.graphql.js';
import trustedWatchBadges from './generated/trusted/TidingsWatchBadgesSubscription.graphql.js';
import trustedWatchBoard from './generated/trusted/TidingsWatchBoardSubscription.graphql.js';
import { prove, Refusal, type Driver, type Setting } from './scenarios.js';

type Requests = Record<Name, ConcreteRequest>;

const texts: Requests = {
  TidingsBadgesQuery: badges,
  TidingsBoardQuery: board,
  TidingsFeedQuery: feed,
  TidingsFollowMutation: follow,
  TidingsMarkMutation: mark,
  TidingsUnfollowMutation: unfollow,
  TidingsWatchBadgesSubscription: watchBadges,
  TidingsWatchBoardSubscription: watchBoard,
};

const trusted: Requests = {
  TidingsBadgesQuery: trustedBadges,
  TidingsBoardQuery: trustedBoard,
  TidingsFeedQuery: trustedFeed,
  TidingsFollowMutation: trustedFollow,
  TidingsMarkMutation: trustedMark,
  TidingsUnfollowMutation: trustedUnfollow,
  TidingsWatchBadgesSubscription: trustedWatchBadges,
  TidingsWatchBoardSubscription: trustedWatchBoard,
};

interface Change {
  variables: Record<string, unknown>;
  response: Record<string, unknown>;
  rawResponse: Record<string, unknown>;
}

const driveWith = (requests: Requests) => ({ url, user, guard, fetch }: Setting): Driver => {
  const socket = createSocket({ url, token: () => `dev:${user}`, webSocketImpl: WebSocket, minWait: 20, maxWait: 100 });
  const unguarded: RelayNetwork = {
    async fetch(request, variables) {
      const headers = { 'content-type': 'application/json', authorization: `Bearer dev:${user}` };
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(payloadOf(request, variables)) });
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
          onCompleted: (data, errors) => (errors ? reject(new Refusal(errors)) : resolve(data)),
          onError: reject,
        });
      }),
    subscribe(name, variables, next = () => {}) {
      const watching = requestSubscription(environment, { subscription: requests[name], variables: { ...variables }, onNext: (data) => data && next(data) });
      return () => watching.dispose();
    },
    close: () => void socket.dispose(),
  };
};

prove('Relay', driveWith(texts));

test('the compiler has taken the texts of trusted documents away', () => {
  for (const { params } of Object.values(trusted)) assert.equal(params.text, null);
});
prove('Relay with trusted documents', driveWith(trusted), ['--trusted-documents', join(import.meta.dirname, '..', 'generated', 'trusted.json')]);
