// A server that does what a test tells it, and a socket to it.
import { once } from 'node:events';
import { type AddressInfo } from 'node:net';
import { afterEach } from 'node:test';
import { createSocket, type SocketOptions } from '@tidings/client';
import WebSocket, { WebSocketServer } from 'ws';

/** A message of graphql-transport-ws. */
export interface Message {
  id?: string;
  type: string;
  payload?: { authorization?: string; device?: string; query?: string; variables?: Record<string, unknown> };
}

/** Handles a message of the nth connection, from 1. */
export type Handler = (socket: WebSocket, message: Message, connection: number) => void;

/** What is called when the test is over, the last first. */
export const ends: (() => unknown)[] = [];
// A test that keeps the timers of its own socket must not meet those of a socket of the test before.
afterEach(async () => {
  for (let end = ends.pop(); end; end = ends.pop()) await end();
});

/** serve starts a server that hands every message to the handler. */
export async function serve(handler: Handler) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const inits: Message['payload'][] = [];
  const subscribes: Message[] = [];
  let connections = 0;
  server.on('connection', (socket) => {
    const connection = ++connections;
    socket.on('message', (text) => {
      const message = JSON.parse(String(text)) as Message;
      if (message.type === 'connection_init') inits.push(message.payload);
      if (message.type === 'subscribe') subscribes.push(message);
      handler(socket, message, connection);
    });
  });
  const clients: WebSocket[] = [];
  class Client extends WebSocket {
    constructor(...options: ConstructorParameters<typeof WebSocket>) {
      super(...options);
      clients.push(this);
    }
  }
  ends.push(async () => {
    for (const client of server.clients) client.terminate();
    server.close();
    const open = clients.filter(({ readyState }) => readyState !== WebSocket.CLOSED);
    await Promise.all(open.map((client) => new Promise((resolve) => (client.once('close', resolve), client.terminate()))));
  });
  const options = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`,
    token: () => 'token',
    webSocketImpl: Client,
    minWait: 1,
    maxWait: 4,
  } satisfies SocketOptions;
  return { server, options, inits, subscribes };
}

/** connect starts such a server and makes a socket to it. */
export async function connect(handler: Handler, more: Partial<SocketOptions> = {}) {
  const { options, ...peer } = await serve(handler);
  const socket = createSocket({ ...options, ...more });
  ends.push(() => socket.dispose());
  return { ...peer, socket };
}

export const send = (socket: WebSocket, message: object) => socket.send(JSON.stringify(message));
export const acknowledge: Handler = (socket, { type }) => type === 'connection_init' && send(socket, { type: 'connection_ack' });
export const event = (version: string, more: object = {}) => ({ data: { badgesChanged: { id: 'badges:alice', version }, ...more } });
export const watch = 'subscription W($since: Version) { badgesChanged(since: $since) { id version } }';
