// What every client is put through, against a real server. After each step what the cache holds is what the server says.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { clear, type Badges } from '@tidings/client';
import { textOf, type Name } from './documents.js';
import { Server, without } from './server.js';
import { until } from './until.js';

/** How a driver is made. */
export interface Setting {
  url: string;
  user: string;
  /** Whether the guard of the package is in its place. */
  guard: boolean;
  fetch: typeof fetch;
}

/** A client, with a cache. */
export interface Driver {
  /** query asks the server, not the cache. */
  query(name: Name, variables?: object): Promise<any>;
  /** next adds the page after a cursor to a list. */
  next(name: Name, variables: object, after: string): Promise<unknown>;
  /** read answers what a screen that has asked this shows now. */
  read(name: Name, variables?: object): any;
  /** watch tells what such a screen shows, at once and then at each change; absent without a cache. */
  watch?(name: Name, variables: object, shown: (data: any) => void): () => void;
  /** mutate is rejected with a Refusal when the server refuses; predicted are the badges that markHomeFeedSeen is expected to answer. */
  mutate(name: Name, variables: object, predicted?: Badges): Promise<any>;
  subscribe(name: Name, variables: object, next?: (data: any) => void): () => void;
  close(): void;
}

/** What the server says of an operation that it refuses. */
export class Refusal extends Error {
  readonly code: unknown;
  constructor(errors: readonly { message: string; extensions?: Record<string, unknown> }[]) {
    super(errors[0]?.message);
    this.code = errors[0]?.extensions?.code;
  }
}

const post = 'mutation P($input: PublishPostInput!) { publishPost(input: $input) { post { id } } }';
const follow = 'mutation F($input: FollowInput!) { follow(input: $input) { changed } }';

/** prove puts a client through every scenario, against a server with these flags; without a cache, through those that need none. */
export function prove(client: string, make: (setting: Setting) => Driver, flags: readonly string[] = [], caches = true): void {
  describe(client, { concurrency: false }, () => {
    let server: Server;
    const drivers: Driver[] = [];
    const held = createHold();

    before(async () => void (server = await Server.start(flags)));
    after(async () => {
      for (const driver of drivers) driver.close();
      await server?.stop();
    });

    function drive(user: string, guard = true): Driver {
      const driver = make({ url: server.url, user, guard, fetch: held.fetch });
      drivers.push(driver);
      return driver;
    }
    const fresh = async (user: string, name: Name, variables: object = {}) => server.ask(user, textOf(name), variables);
    /** equal sees that the badges on the screen are those of the server, also when a push is still on its way. */
    const equal = (driver: Driver, user: string) =>
      until(
        async () => [without(driver.read('TidingsBadgesQuery')), await fresh(user, 'TidingsBadgesQuery')],
        ([shown, asked]) => isDeepStrictEqual(shown, asked),
        'the badges on the screen are not those of the server',
      );
    const total = (driver: Driver): number | undefined => driver.read('TidingsBadgesQuery')?.viewer.badges.total.value;
    const shows = (driver: Driver, value: number) => until(() => total(driver), (now) => now === value, `the total on the screen is not ${value}`);

    /** pair makes a reader who follows an author, with so many posts that the reader has not seen. */
    async function pair(name: string, posts: number): Promise<{ reader: string; publish: (count?: number) => Promise<void> }> {
      const [reader, author] = [`${name}-reader`, `${name}-author`];
      const publish = async (count = 1) => {
        for (let i = 0; i < count; i++) await server.ask(author, post, { input: { body: `${name} ${i}` } });
      };
      await server.ask(author, '{ viewer { id } }');
      await server.ask(reader, follow, { input: { userId: `user:${author}` } });
      await server.ask(reader, textOf('TidingsMarkMutation'), { input: {} });
      await publish(posts);
      await until(async () => (await fresh(reader, 'TidingsBadgesQuery')).viewer.badges.total.value, (now) => now === posts, 'posts arrive');
      return { reader, publish };
    }

    test('pages a feed to its end', async () => {
      const { reader } = await pair('feed', 25);
      const driver = drive(reader);
      let pages = 1;
      let { pageInfo } = (await driver.query('TidingsFeedQuery', { first: 10 })).viewer.homeFeed;
      for (; pageInfo.hasNextPage; pages++) {
        await driver.next('TidingsFeedQuery', { first: 10 }, pageInfo.endCursor);
        pageInfo = driver.read('TidingsFeedQuery', { first: 10 }).viewer.homeFeed.pageInfo;
      }
      assert.equal(pages, 3);
      const shown = driver.read('TidingsFeedQuery', { first: 10 }).viewer.homeFeed;
      const all = (await fresh(reader, 'TidingsFeedQuery', { first: 100 })).viewer.homeFeed;
      assert.equal(all.edges.length, 25);
      assert.deepEqual(without(shown), all);
    });

    test('begins a list anew when its first page is asked for again', async () => {
      const { reader, publish } = await pair('anew', 4);
      const driver = drive(reader);
      const first = (await driver.query('TidingsFeedQuery', { first: 2 })).viewer.homeFeed.pageInfo;
      await driver.next('TidingsFeedQuery', { first: 2 }, first.endCursor);
      await publish(3); // more than a page: what follows the new first page was never loaded
      await until(async () => (await fresh(reader, 'TidingsBadgesQuery')).viewer.badges.total.value, (now) => now === 7, 'posts arrive');
      await driver.query('TidingsFeedQuery', { first: 2 });
      const shown = driver.read('TidingsFeedQuery', { first: 2 }).viewer.homeFeed;
      assert.deepEqual(without(shown), (await fresh(reader, 'TidingsFeedQuery', { first: 2 })).viewer.homeFeed);
    });

    test('moves the badges by its own mark, and by pushes up and down', async () => {
      const { reader, publish } = await pair('push', 2);
      const driver = drive(reader);
      await driver.query('TidingsBadgesQuery');
      assert.equal(total(driver), 2);
      await driver.mutate('TidingsMarkMutation', { input: {} });
      assert.equal(total(driver), 0);
      await equal(driver, reader);
      const stop = driver.subscribe('TidingsWatchBadgesSubscription', { since: null });
      await publish(3);
      await shows(driver, 3);
      await equal(driver, reader);
      await server.ask(reader, textOf('TidingsMarkMutation'), { input: {} }); // on another device
      await shows(driver, 0);
      await equal(driver, reader);
      stop();
    });

    const cached = caches ? test : () => {};

    cached('shows a mark before it is answered, and takes it back when it is refused', async () => {
      const { reader } = await pair('predicted', 3);
      const driver = drive(reader);
      await driver.query('TidingsBadgesQuery');
      const seen: number[] = [];
      const stop = driver.watch!('TidingsBadgesQuery', {}, (data) => data && seen.at(-1) !== data.viewer.badges.total.value && seen.push(data.viewer.badges.total.value));
      const predicted = () => clear(driver.read('TidingsBadgesQuery').viewer.badges as Badges, 'homeFeed');
      await assert.rejects(driver.mutate('TidingsMarkMutation', { input: { upTo: 'post:0000000000001' } }, predicted()), { code: 'NOT_FOUND' });
      await until(() => seen, () => seen.length === 3, 'totals on the screen');
      assert.deepEqual(seen, [3, 0, 3]);
      await equal(driver, reader);
      await driver.mutate('TidingsMarkMutation', { input: {} }, predicted());
      await until(() => seen, () => seen.length === 4, 'totals on the screen');
      assert.deepEqual(seen, [3, 0, 3, 0]);
      await equal(driver, reader);
      stop();
    });

    test('follows and unfollows', async () => {
      await server.ask('followed', '{ viewer { id } }');
      for (const body of ['one', 'two']) await server.ask('followed', post, { input: { body } });
      const driver = drive('follower');
      await driver.query('TidingsBadgesQuery');
      const feed = async () => {
        await driver.query('TidingsFeedQuery', { first: 10 });
        const shown = driver.read('TidingsFeedQuery', { first: 10 }).viewer.homeFeed;
        assert.deepEqual(without(shown), (await fresh('follower', 'TidingsFeedQuery', { first: 10 })).viewer.homeFeed);
        return shown.edges.length;
      };
      const input = { input: { userId: 'user:followed' } };
      assert.equal(await feed(), 0);
      assert.equal((await driver.mutate('TidingsFollowMutation', input)).follow.changed, true);
      await equal(driver, 'follower');
      assert.equal(await feed(), 2);
      assert.equal((await driver.mutate('TidingsFollowMutation', input)).follow.changed, false);
      await server.ask('followed', post, { input: { body: 'three' } });
      await until(() => driver.query('TidingsBadgesQuery'), ({ viewer }) => viewer.badges.total.value === 1, 'the post counts');
      await driver.mutate('TidingsUnfollowMutation', input);
      assert.equal(total(driver), 0);
      await equal(driver, 'follower');
      assert.equal(await feed(), 0);
    });

    test('walks a board whose first show goes live, in one order', async () => {
      const ids: string[] = [];
      for (let i = 0; i < 5; i++) {
        const input = { title: `Show ${i}`, plannedAt: new Date(Date.now() + (i + 1) * 3_600_000).toISOString() };
        const { scheduleShow } = await server.ask(`host-${i}`, 'mutation S($input: ScheduleShowInput!) { scheduleShow(input: $input) { show { id } } }', { input });
        ids.push(scheduleShow.show.id);
        await server.ask('watcher', follow, { input: { userId: `user:host-${i}` } });
      }
      await until(async () => (await fresh('watcher', 'TidingsBoardQuery', { first: 100 })).viewer.liveBoard.edges.length, (n) => n === 5, 'shows arrive');
      const driver = drive('watcher');
      await driver.query('TidingsBadgesQuery');
      const board = () => driver.read('TidingsBoardQuery', { first: 2 }).viewer.liveBoard;
      await driver.query('TidingsBoardQuery', { first: 2 });
      const { sessionId } = board();
      const live = new Set<string>();
      const stop = driver.subscribe('TidingsWatchBoardSubscription', { sessionId, since: null }, (data) => {
        for (const { id } of data.liveBoardChanged.wentLive) live.add(id);
      });
      await server.ask('host-0', 'mutation S($input: StartShowInput!) { startShow(input: $input) { show { status } } }', { input: { showId: ids[0] } });
      await until(() => [...live], (now) => now.includes(ids[0]!), 'the show goes live');
      assert.equal(board().edges[0].node.status, 'LIVE', 'the show is shown as it is now');
      assert.equal(board().edges[0].status, 'UPCOMING', 'the edge is shown as it was');
      await shows(driver, 1);
      await equal(driver, 'watcher');
      while (board().pageInfo.hasNextPage) await driver.next('TidingsBoardQuery', { first: 2 }, board().pageInfo.endCursor);
      assert.deepEqual(board().edges.map((edge: { node: { id: string } }) => edge.node.id), ids);
      const frozen = textOf('TidingsBoardQuery').replace('$after: String', '$session: String').replace('after: $after', 'sessionId: $session');
      const all = (await server.ask('watcher', frozen, { first: 100, session: sessionId })).viewer.liveBoard;
      assert.deepEqual(without(board()), all);
      stop();
    });

    test('goes on after the server was killed', async () => {
      const { reader, publish } = await pair('killed', 1);
      const driver = drive(reader);
      await driver.query('TidingsBadgesQuery');
      const events: number[] = [];
      const stop = driver.subscribe('TidingsWatchBadgesSubscription', { since: null }, (data) => events.push(data.badgesChanged.total.value));
      await until(() => events.length, (n) => n === 1, 'events');
      await publish();
      await shows(driver, 2);
      await server.kill();
      await server.restart();
      await publish();
      await shows(driver, 3);
      await equal(driver, reader);
      await driver.mutate('TidingsMarkMutation', { input: {} });
      await equal(driver, reader);
      stop();
    });

    /** late lets an answer that is older than a push arrive after it, and answers the total on the screen, where 1 is right. */
    async function late(name: string, guard: boolean): Promise<{ driver: Driver; reader: string }> {
      const { reader, publish } = await pair(name, 0);
      const driver = drive(reader, guard);
      await driver.query('TidingsBadgesQuery');
      const stop = driver.subscribe('TidingsWatchBadgesSubscription', { since: null });
      const answer = held.next();
      const asked = driver.query('TidingsBadgesQuery');
      const release = await answer;
      await publish();
      await shows(driver, 1);
      release();
      await asked;
      stop();
      return { driver, reader };
    }

    cached('keeps the badges that were pushed when an older answer comes after them', async () => {
      const { driver, reader } = await late('late', true);
      assert.equal(total(driver), 1);
      await equal(driver, reader);
    });

    cached('would lose them without the guard', async () => {
      const { driver } = await late('unguarded', false);
      assert.equal(total(driver), 0);
    });
  });
}

/** createHold makes a fetch that can keep an answer back. */
function createHold() {
  let waiting: ((release: () => void) => void) | undefined;
  return {
    /** next waits until the next answer has come, and answers what hands it over. */
    next: () => new Promise<() => void>((resolve) => (waiting = resolve)),
    fetch: async (...args: Parameters<typeof fetch>): Promise<Response> => {
      const holds = waiting;
      waiting = undefined;
      const response = await fetch(...args);
      if (!holds) return response;
      const body = await response.text();
      await new Promise<void>((release) => holds(release));
      return new Response(body, response);
    },
  };
}
