// The clients without a cache: graphql-ws as createSocket makes it, and graphql-sse in both modes.
import { createClient } from 'graphql-sse';
import { createSocket } from '@tidings/client';
import WebSocket from 'ws';
import { type Streams } from './screens.js';

export interface Connection extends Streams {
  /** cut loses the connection, and waits for another. */
  cut?(): Promise<void>;
}

export const makers: Record<string, (user: string, url: string) => Connection> = {
  'graphql-ws': (user, url) => {
    const socket = createSocket({ url, token: () => `dev:${user}`, webSocketImpl: WebSocket, minWait: 20, maxWait: 100 });
    const cut = () =>
      new Promise<void>((resolve) => {
        socket.on('connected', () => resolve());
        socket.terminate();
      });
    return { subscribe: (query, variables, sink) => socket.subscribe({ query, variables: { ...variables } }, sink), cut, close: () => void socket.dispose() };
  },
  'graphql-sse with a stream each': (user, url) => sse(user, url, false),
  'graphql-sse with one stream': (user, url) => sse(user, url, true),
};

function sse(user: string, url: string, singleConnection: boolean): Connection {
  const client = createClient({
    url,
    headers: { authorization: `Bearer dev:${user}` },
    singleConnection: singleConnection as false,
    retryAttempts: 100,
    retry: () => new Promise((resolve) => setTimeout(resolve, 20)),
  });
  return { subscribe: (query, variables, sink) => client.subscribe({ query, variables: { ...variables } }, sink as never), close: () => client.dispose() };
}
