// The hooks for React, and the client without a cache under them, against a real server.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clear, createTidings } from '@tidings/client';
import { useBadges, useHomeFeed, useLiveBoard, useNotifications, type Notification } from '@tidings/client/react';
import { useEffect } from 'react';
import WebSocket from 'ws';
import { textOf } from './documents.js';
import { arrive, clientOf, ends, follow, post, render, server } from './hooks.js';
import { until } from './until.js';

const hostCategories = ['orders'];

async function pair(name: string, posts: number) {
  const [reader, author] = [`${name}-reader`, `${name}-author`];
  await server.ask(author, '{ viewer { id } }');
  await follow(reader, author);
  for (let i = 0; i < posts; i++) await post(author, `${name} ${i}`);
  await arrive(reader, posts);
  return { reader, author };
}

test('useBadges shows what the server says, pushed up and down, and after the server was killed', async () => {
  const { reader, author } = await pair('badges', 1);
  const { now } = await render(reader, useBadges);
  const equal = async () => assert.deepEqual(now(), (await server.ask(reader, textOf('TidingsBadgesQuery'))).viewer.badges);
  await until(now, (badges) => badges?.total.value === 1, 'the total is not 1');
  await post(author, 'more');
  await until(now, (badges) => badges?.total.value === 2, 'the total is not 2');
  await equal();
  await server.kill();
  await server.restart();
  await server.ask(reader, textOf('TidingsMarkMutation'), { input: {} });
  await until(now, (badges) => badges?.total.value === 0, 'the total is not 0');
  await equal();
});

test('useHomeFeed pages to the end, and marks what it shows', async () => {
  const { reader, author } = await pair('feed', 12);
  const { now, tidings } = await render(reader, () => useHomeFeed({ first: 5 }));
  await until(now, ({ nodes, newPosts }) => nodes.length === 5 && newPosts?.value === 12, 'the first page is not there');
  for (let pages = 2; now().hasNextPage; pages++) {
    assert.ok(pages < 5);
    const before = now().nodes.length;
    await now().loadNext();
    await until(now, ({ nodes }) => nodes.length > before, 'the next page is not there');
  }
  const all = (await server.ask(reader, textOf('TidingsFeedQuery'), { first: 100 })).viewer.homeFeed.edges.map(({ node }: { node: { id: string } }) => node.id);
  assert.deepEqual(now().nodes.map(({ id }) => id), all);
  await post(author, 'unseen');
  await until(now, ({ newPosts }) => newPosts?.value === 13, 'the push is not there');
  const seen: (number | null | undefined)[] = [];
  const note = (value: number | null | undefined) => value !== seen.at(-1) && seen.push(value); // the push can come before the answer
  ends.push(tidings.badges.subscribe(() => note(tidings.badges.get()?.homeFeed.value)));
  await now().markSeen();
  await until(now, ({ newPosts }) => newPosts?.value === 1, 'what was not shown does not count');
  assert.deepEqual(seen, [0, 1], 'the prediction holds until the answer is there, and no longer');
  const { refresh, markSeen } = now(); // of one render, as a button has them
  await refresh().then(markSeen);
  assert.equal(tidings.badges.get()?.total.value, 0);
  await until(now, ({ nodes }) => nodes[0]?.body === 'unseen', 'the new post is not shown');
  assert.equal(now().nodes.length, 5);
});

for (const posts of [7, 0]) {
  test(`a pill counts the posts that came after the first page, of ${posts} posts`, async () => {
    const { reader, author } = await pair(`pill-${posts}`, posts);
    const marks: unknown[] = [];
    // As Feed in the README.
    const { now } = await render(reader, () => {
      const { nodes, top, newPosts, loadNext, refresh, markSeen } = useHomeFeed({ first: 5 });
      const shown = nodes.length > 0;
      useEffect(() => {
        if (shown) markSeen().then(() => marks.push(nodes[0]?.body), (reason) => marks.push(reason));
      }, [shown, top]);
      return { nodes, pill: top && newPosts?.value, loadNext, refresh };
    });
    await until(now, ({ nodes, pill }) => nodes.length === Math.min(posts, 5) && pill === 0, 'the first page counts as new');
    await arrive(reader, 0);
    for (const [i, body] of ['one', 'two'].entries()) {
      await post(author, body);
      await until(now, ({ nodes, pill }) => nodes.length === Math.min(posts, 5) && pill === i + 1, `${body} does not count`);
    }
    const { refresh } = now(); // of an earlier render, as a button has it
    await refresh();
    await until(now, ({ nodes, pill }) => nodes[0]?.body === 'two' && pill === 0, 'what is shown counts as new');
    await arrive(reader, 0);
    await now().loadNext();
    await until(now, ({ nodes }) => nodes.length === posts + 2, 'the next page is not there');
    await post(author, 'three');
    await until(now, ({ pill }) => pill === 1, 'three does not count');
    assert.deepEqual(marks, posts === 0 ? ['two'] : [`pill-${posts} ${posts - 1}`, 'two']);
  });
}

test('what could not be loaded is not marked as seen', async () => {
  const { reader } = await pair('unloaded', 2);
  const first = 500; // more than the server allows
  for (const [what, hook] of Object.entries({ homeFeed: () => useHomeFeed({ first }), liveBoard: () => useLiveBoard({ first }), notifications: () => useNotifications({ first }) })) {
    const { now } = await render<{ error: Error | undefined; markSeen: () => Promise<unknown> }>(reader, hook);
    await until(now, ({ error }) => !!error, `${what} was loaded`);
    await assert.rejects(now().markSeen(), { message: /first/ }, what);
  }
  assert.equal((await server.ask(reader, textOf('TidingsBadgesQuery'))).viewer.badges.total.value, 2);
});

test('a mark is shown before it is answered, and taken back when it is refused', async () => {
  const { reader } = await pair('refused', 2);
  const { now, tidings } = await render(reader, useBadges);
  await until(now, (badges) => badges?.total.value === 2, 'the total is not 2');
  const seen: (number | null | undefined)[] = [];
  ends.push(tidings.badges.subscribe(() => seen.push(tidings.badges.get()?.total.value)));
  const { data, errors } = await tidings.mutate<{ markHomeFeedSeen: null }>(textOf('TidingsMarkMutation'), { input: { upTo: 'post:0000000000001' } }, (badges) =>
    clear(badges, 'homeFeed'),
  );
  assert.equal(data?.markHomeFeedSeen, null);
  assert.equal(errors?.[0]?.extensions?.code, 'NOT_FOUND');
  assert.deepEqual(seen, [0, 2]);
  await until(now, (badges) => badges?.total.value === 2, 'the total is not 2 again');
});

test('useNotifications shows rows, tells of new ones, and marks them', async () => {
  const { publishPost } = await post('owner', 'mine');
  const like = (user: string) => server.ask(user, 'mutation L($input: LikePostInput!) { likePost(input: $input) { changed } }', { input: { postId: publishPost.post.id } });
  await like('fan-1');
  await arrive('owner', 1);
  const { now, tidings } = await render('owner', () => useNotifications({ first: 5 }));
  await until(now, ({ nodes, page }) => nodes.length === 1 && !!page && !!tidings.badges.get(), 'the first page is not there');
  assert.deepEqual([now().hasNew, now().nodes[0]?.read, now().nodes[0]?.seen], [false, false, false]);
  await server.ask('fan-2', 'mutation C($input: PublishPostInput!) { publishPost(input: $input) { post { id } } }', { input: { body: 'nice', parentId: publishPost.post.id } });
  await until(now, ({ hasNew }) => hasNew, 'nothing new');
  const { refresh, markSeen, markRead } = now(); // of one render, as a button has them
  await refresh().then(markSeen);
  await until(now, ({ hasNew, nodes }) => !hasNew && nodes.length === 2, 'the new row is not there');
  await until(now, ({ nodes }) => nodes.every(({ seen, read }) => seen && !read), 'the rows are not seen');
  assert.equal(tidings.badges.get()?.total.value, 0);
  await now().markRead([now().nodes[0]!.id]);
  await until(() => now().nodes.map(({ read }) => read), ([first, second]) => first === true && second === false, 'the row is not read');
  await server.ask('owner', 'mutation U($input: MarkNotificationUnreadInput!) { markNotificationUnread(input: $input) { badges { id } } }', { input: { id: now().nodes[0]!.id } });
  await refresh().then(() => markRead([now().nodes[0]!.id]));
  await until(() => now().nodes[0]?.read, (read) => read === true, 'the row is not read again');
  await assert.rejects(now().markRead(['notification:none']), { message: /notification/ });
});

test('useNotifications has the words of what the host application told, and can show its categories alone', async () => {
  await server.ask('host:admin', 'mutation { defineCategory(input: { name: "orders", expiryDays: 7, grouped: true, style: NUMBER, inTotal: true }) { created } }');
  await server.ask('buyer', '{ viewer { id } }');
  const { publishPost } = await post('buyer', 'mine');
  await server.ask('fan-1', 'mutation L($id: ID!) { likePost(input: { postId: $id }) { changed } }', { id: publishPost.post.id });
  const tell = '{ category: "orders", to: ["user:buyer"], title: "Your order was sent", body: "It arrives tomorrow.", url: "https://example.com/17", data: { order: 17 } }';
  await server.ask('host:ingest', `mutation { ingest(events: [{ do: { notify: ${tell} } }]) { results { id } } }`);
  await arrive('buyer', 2);
  const { now } = await render('buyer', () => useNotifications({ first: 5, hostCategories }));
  await until(now, ({ nodes }) => nodes.length > 0, 'the first page is not there');
  const [{ category, hostCategory, title, body, url, data }, ...others] = now().nodes as [Notification, ...Notification[]];
  assert.deepEqual([category, hostCategory, title, body, url, data], ['HOST', 'orders', 'Your order was sent', 'It arrives tomorrow.', 'https://example.com/17', { order: 17 }]);
  assert.deepEqual(others, []);
  await now().markSeen();
  await arrive('buyer', 1); // the like
});

test('useNotifications marks as seen what its first page had, and not what arrived while it went on', async () => {
  const { publishPost } = await post('popular', 'mine');
  const act = (user: string, mutation: string) => server.ask(user, mutation, { id: publishPost.post.id });
  await act('liker', 'mutation L($id: ID!) { likePost(input: { postId: $id }) { changed } }');
  await arrive('popular', 1);
  await act('critic', 'mutation C($id: ID!) { publishPost(input: { parentId: $id, body: "hm" }) { post { id } } }');
  await arrive('popular', 2);
  const { now, tidings } = await render('popular', () => useNotifications({ first: 1 }));
  await until(now, ({ nodes, page }) => nodes.length === 1 && !!page && tidings.badges.get()?.total.value === 2, 'the first page is not there');
  await server.ask('friend', 'mutation F { follow(input: { userId: "user:popular" }) { changed } }');
  await arrive('popular', 3);
  await now().loadNext();
  await until(now, ({ nodes, hasNew }) => nodes.length === 2 && hasNew, 'the next page is not there');
  await now().markSeen();
  assert.equal(tidings.badges.get()?.total.value, 1);
});

test('useNotifications has new rows when its page was read before a push and answered after it', async () => {
  const { publishPost } = await post('late', 'mine');
  const like = (user: string) => server.ask(user, 'mutation L($id: ID!) { likePost(input: { postId: $id }) { changed } }', { id: publishPost.post.id });
  await like('fan-1');
  await arrive('late', 1);
  let answer = () => {};
  const held = new Promise<void>((resolve) => (answer = resolve));
  let read = false;
  const slow: typeof fetch = async (...asked) => {
    const response = await fetch(...asked);
    if (!read) {
      read = true;
      await held;
    }
    return response;
  };
  const { now, tidings } = await render('late', () => useNotifications({ first: 5 }), undefined, { fetch: slow });
  await until(() => read, (was) => was, 'the page is not read');
  await server.ask('critic', 'mutation C($id: ID!) { publishPost(input: { parentId: $id, body: "hm" }) { post { id } } }', { id: publishPost.post.id });
  await until(() => tidings.badges.get()?.total.value, (total) => total === 2, 'the push is not there');
  answer();
  await until(now, ({ nodes }) => nodes.length === 1, 'the page is not there');
  assert.equal(now().hasNew, true);
  await now().markSeen();
  assert.equal(tidings.badges.get()?.total.value, 1, 'what was not shown does not count any more');
});

test('a row that is marked while the list is read again stays marked', async () => {
  const { publishPost } = await post('marker', 'mine');
  await server.ask('fan-1', 'mutation L($id: ID!) { likePost(input: { postId: $id }) { changed } }', { id: publishPost.post.id });
  await arrive('marker', 1);
  let answer = () => {};
  const held = new Promise<void>((resolve) => (answer = resolve));
  let lists = 0;
  const slow: typeof fetch = async (url, options) => {
    const response = await fetch(url, options);
    if (String(options?.body).includes('query List') && ++lists === 2) await held; // it was read before the mark
    return response;
  };
  const { now } = await render('marker', () => useNotifications({ first: 5 }), undefined, { fetch: slow });
  await until(now, ({ nodes, page }) => nodes.length === 1 && !!page, 'the first page is not there');
  const refreshed = now().refresh();
  await until(() => lists, (n) => n === 2, 'the page is not read');
  await now().markRead([now().nodes[0]!.id]);
  await until(() => now().nodes[0]?.read, (read) => read === true, 'the row is not read');
  answer();
  await refreshed;
  await until(now, ({ loading }) => !loading, 'the page is not there');
  assert.equal(now().nodes[0]?.read, true);
});

test('an empty list is loading from its first rendering on, and what comes after it is not marked as seen', async () => {
  const { reader, author } = await pair('empty', 0);
  const { publishPost } = await post(reader, 'mine'); // not in a feed of others, and not new
  const feed = await render(author, () => useHomeFeed({ first: 5 }));
  const bell = await render(reader, () => useNotifications({ first: 5 }));
  for (const { all, now } of [feed, bell] as { all: { loading: boolean; top: unknown }[]; now: () => { loading: boolean } }[]) {
    await until(now, ({ loading }) => !loading, 'it is loading');
    for (const { loading, top } of all) assert.equal(loading, !top);
  }
  assert.deepEqual([feed.now().nodes, bell.now().nodes], [[], []]);
  await follow(author, reader);
  await server.ask(author, 'mutation L($id: ID!) { likePost(input: { postId: $id }) { changed } }', { id: publishPost.post.id });
  await post(reader, 'more');
  await arrive(author, 2); // the post, and that the reader follows
  await arrive(reader, 2);
  await feed.now().markSeen();
  await bell.now().markSeen();
  await arrive(author, 2); // the post, and that the reader follows
  await arrive(reader, 2);
});

test('a list that is hidden and shown again has the pages that it had', async () => {
  const { reader } = await pair('hidden', 12);
  const effects: string[] = [];
  let requests = 0;
  const counted: typeof fetch = (...asked) => (requests++, fetch(...asked));
  const hook = () => {
    const list = useHomeFeed({ first: 5 });
    useEffect(() => {
      effects.push('shown');
      return () => void effects.push('hidden');
    }, []);
    return list;
  };
  const { now, show } = await render(reader, hook, undefined, { fetch: counted });
  await until(now, ({ nodes }) => nodes.length === 5, 'the first page is not there');
  show('hidden');
  await until(() => effects.join(), (all) => all === 'shown,hidden', 'it is not hidden');
  show('visible');
  await until(() => effects.join(), (all) => all === 'shown,hidden,shown', 'it is not shown');
  await now().refresh();
  assert.equal(requests, 2, 'the first page, and what was asked for');
});

test('badges are right when listening begins again after an answer with their version alone', async () => {
  const { reader, author } = await pair('version', 1);
  const tidings = clientOf(reader);
  const value = () => tidings.badges.get()?.total.value;
  const stop = tidings.badges.subscribe(() => {});
  await until(value, (now) => now === 1, 'the total is not 1');
  stop();
  const { publishPost } = await post(author, 'more');
  await arrive(reader, 2);
  const { errors } = await tidings.request('mutation L($input: LikePostInput!) { likePost(input: $input) { badges { id version } } }', { input: { postId: publishPost.post.id } });
  assert.equal(errors, undefined);
  ends.push(tidings.badges.subscribe(() => {}));
  await until(value, (now) => now === 2, 'the total is not 2');
});

test('a token that is over is renewed once for all requests', async () => {
  const asked: boolean[] = [];
  const tidings = createTidings({
    url: server.url,
    token: (renew) => (asked.push(renew), renew ? 'dev:renewed' : 'over'),
    webSocketImpl: WebSocket,
  });
  const request = () => tidings.request<{ viewer: { id: string } }>('{ viewer { id } }');
  const answers = await Promise.all([request(), request(), request()]);
  assert.deepEqual(answers.map(({ data }) => data?.viewer.id), Array(3).fill('viewer:renewed'));
  assert.deepEqual(asked, [false, true]);
});
