// What the tests of the hooks share: a server, clients without a cache, and components that call a hook.
import { after, before } from 'node:test';
import { createTidings, type Tidings, type TidingsOptions } from '@tidings/client';
import { TidingsProvider } from '@tidings/client/react';
import { Activity, createElement } from 'react';
import { create } from 'react-test-renderer';
import WebSocket from 'ws';
import { textOf } from './documents.js';
import { Server } from './server.js';
import { until } from './until.js';

// react-test-renderer says on each use that it is deprecated; it renders without a browser.
const report = console.error;
console.error = (...words: unknown[]) => String(words[0]).includes('react-test-renderer is deprecated') || report(...words);

/** The server of the file's tests. */
export let server: Server;
/** Further servers. They are stopped after the clients: disposing of a client whose server is gone fails. */
export const others: Server[] = [];
/** What is called when the tests are over. */
export const ends: (() => unknown)[] = [];
before(async () => void (server = await Server.start()));
after(async () => {
  for (const end of ends) await end();
  for (const started of [server, ...others]) await started?.stop();
});

/** clientOf makes a client without a cache for a user. */
export function clientOf(user: string, url = server.url, more?: Partial<TidingsOptions>): Tidings {
  const tidings = createTidings({ url, token: () => `dev:${user}`, webSocketImpl: WebSocket, minWait: 20, maxWait: 100, ...more });
  ends.push(() => tidings.socket.dispose());
  return tidings;
}

/** render calls a hook in a component for a user; now answers what it returned last, all what it has ever returned. */
export async function render<Value>(user: string, hook: () => Value, url?: string, more?: Partial<TidingsOptions>) {
  const tidings = clientOf(user, url, more);
  const all: Value[] = [];
  const Probe = () => {
    all.push(hook());
    return null;
  };
  const page = (mode: 'visible' | 'hidden') => createElement(TidingsProvider, { tidings }, createElement(Activity, { mode, children: createElement(Probe) }));
  const root = create(page('visible'), { unstable_isConcurrent: true } as never);
  await until(() => all.length, (n) => n > 0, 'the first call');
  ends.push(() => root.unmount());
  return { now: () => all.at(-1)!, all, tidings, show: (mode: 'visible' | 'hidden') => root.update(page(mode)) };
}

export const post = (user: string, body: string) => server.ask(user, 'mutation P($input: PublishPostInput!) { publishPost(input: $input) { post { id } } }', { input: { body } });
export const follow = (user: string, whom: string) => server.ask(user, 'mutation F($input: FollowInput!) { follow(input: $input) { changed } }', { input: { userId: `user:${whom}` } });
export const arrive = (user: string, total: number) =>
  until(async () => (await server.ask(user, textOf('TidingsBadgesQuery'))).viewer.badges.total.value, (now) => now === total, `${total} arrive`);
