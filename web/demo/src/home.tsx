import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { BADGES } from '@tidings/client';
import { useHomeFeed, useTidings, type Post } from '@tidings/client/react';
import { clicked } from './meter.ts';
import { Avatar, Empty, Failed, Icon, nameOf, Waiting, type Person } from './parts.tsx';
import type { View } from './view.ts';
import { useCell } from './store.ts';
import { act, postAsBen } from './levers.tsx';
import { page } from './page.ts';
import { ago, clock, useWords } from './words.ts';

interface FeedPost extends Post {
  readonly viewerHasLiked: boolean | null;
  readonly likeCount: number | null;
  readonly commentCount: number | null;
}

const select = 'author { id key name avatarUrl } body publishedAt viewerHasLiked likeCount commentCount';
const watch = `subscription WatchHomeFeed($since: Version) { homeFeedChanged(since: $since) { newPosts { value display } newestId authors { id key name } badges { ...TidingsBadges } } } ${BADGES}`;
const rowFields = 'post { id viewerHasLiked likeCount commentCount } badges { ...TidingsBadges }';

/** Home is the feed, with a pill for what is new in it. */
export function Home({ connection, shown, tell }: View) {
  const words = useWords();
  const tidings = useTidings();
  const now = useCell(clock);
  const { nodes, top, newPosts, loading, error, hasNextPage, loadNext, refresh, markSeen } = useHomeFeed<FeedPost>({ first: 20, select });
  const [authors, setAuthors] = useState<readonly Person[]>([]);
  const [changed, setChanged] = useState<ReadonlyMap<FeedPost, Partial<FeedPost>>>(new Map()); // by the post as it was read: a later read has the truth
  const list = useRef<HTMLDivElement>(null);
  useEffect(
    () => tidings.listen<{ homeFeedChanged: { authors: readonly Person[] } }>(watch, { since: null }, ({ data }) => data && setAuthors(data.homeFeedChanged.authors), () => undefined),
    [tidings],
  );
  useEffect(() => {
    if (connection > 1) void refresh();
  }, [connection]);
  // A page that is on the screen is seen, so that the pill counts the posts that came after it.
  const onScreen = shown && nodes.length > 0;
  useLayoutEffect(() => {
    if (onScreen) void markSeen().catch(tell);
  }, [onScreen, top]);
  useEffect(() => {
    if (error && nodes.length > 0) tell(error);
  }, [error]);
  const posts = useMemo(() => nodes.map((post) => ({ ...post, ...changed.get(post) })), [nodes, changed]);

  const see = async () => {
    clicked();
    await refresh();
    list.current?.scrollTo({ top: 0 });
  };
  const like = async (post: FeedPost) => {
    const liked = !post.viewerHasLiked;
    const verb = liked ? 'likePost' : 'unlikePost';
    const row = nodes.find(({ id }) => id === post.id);
    if (!row) return;
    const before = changed.get(row);
    const patch = (value: Partial<FeedPost> | undefined) =>
      setChanged((former) => new Map([...former].filter(([one]) => nodes.includes(one))).set(row, { ...former.get(row), ...value }));
    patch({ viewerHasLiked: liked, likeCount: (post.likeCount ?? 0) + (liked ? 1 : -1) });
    clicked();
    const document = `mutation ${liked ? 'Like' : 'Unlike'}($input: ${liked ? 'LikePostInput' : 'UnlikePostInput'}!) { ${verb}(input: $input) { changed ${rowFields} } } ${BADGES}`;
    try {
      const { data, errors } = await tidings.request<Record<string, { post: Partial<FeedPost> } | null>>(document, { input: { postId: post.id } });
      if (!data?.[verb]) throw new Error(errors?.[0]?.message);
      patch(data[verb]!.post);
    } catch (reason) {
      patch({ viewerHasLiked: post.viewerHasLiked, likeCount: post.likeCount, ...before });
      tell(reason);
    }
  };

  const count = newPosts?.value ?? 0;
  // The first posts of an empty feed come by themselves.
  const missing = nodes.length === 0 && count > 0 && !loading && !error;
  useEffect(() => {
    if (missing) void refresh();
  }, [missing]);
  return (
    <div class="view">
      {top && count > 0 && (
        <button type="button" class="pill" onClick={() => void see()}>
          <span class="faces">{authors.slice(0, 3).map((author) => <Avatar key={author.key} person={author} size={20} />)}</span>
          {words.newPosts(String((newPosts?.value ?? 0) > 99 ? '99+' : newPosts?.value))}
        </button>
      )}
      <div class="scroll" ref={list} tabIndex={0} role="group" aria-label={words.home} aria-busy={loading}>
        {posts.map((post) => (
          <article key={post.id} class="post" aria-label={nameOf(post.author)}>
            <Avatar person={post.author} />
            <div>
              <header>
                <b>{nameOf(post.author)}</b> <time dateTime={post.publishedAt}>{ago(post.publishedAt, now)}</time>
              </header>
              <p>{post.body}</p>
              <footer>
                <button type="button" class={`quiet like${post.viewerHasLiked ? ' on' : ''}`} aria-pressed={!!post.viewerHasLiked} aria-label={`${words.like} ${nameOf(post.author)}${post.likeCount ? `, ${post.likeCount}` : ''}`} onClick={() => void like(post)}>
                  <Icon name="heart" size={16} /> <span>{post.likeCount || ''}</span>
                </button>
                <span class="quiet" aria-hidden="true">
                  <Icon name="answer" size={16} /> <span>{post.commentCount || ''}</span>
                </span>
              </footer>
            </div>
          </article>
        ))}
        {posts.length === 0 && loading && !error && <Waiting label={words.loading} />}
        {posts.length === 0 && error && <Failed icon="home" error={error} again={refresh} />}
        {posts.length === 0 && !loading && !error && (
          <Empty icon="home">
            <p>{words.noPosts}</p>
            {page.mode !== 'production' && <button type="button" class="plain" onClick={() => void act(postAsBen)}>{words.makeOne}</button>}
          </Empty>
        )}
        {posts.length > 0 && hasNextPage && <button type="button" class="plain older" disabled={loading} onClick={() => void loadNext()}>{words.loadMore}</button>}
      </div>
    </div>
  );
}
