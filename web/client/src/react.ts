'use client'; // for Next.js: on its server there is no createContext
/** React hooks over createTidings, for applications without a GraphQL cache. */
import { createContext, createElement, useContext, useEffect, useMemo, useState, useSyncExternalStore, type ReactNode } from 'react';
import { clear } from './clear.js';
import { createList, failure, type Connection, type List, type ListState } from './list.js';
import { BADGES, type BadgeCount, type Badges } from './schema.js';
import type { Answer, GraphQLError, Tidings } from './tidings.js';

const Context = createContext<Tidings | null>(null);

/** TidingsProvider gives the hooks below it their client. */
export function TidingsProvider({ tidings, children }: { tidings: Tidings; children?: ReactNode }) {
  return createElement(Context.Provider, { value: tidings }, children);
}

/** useTidings returns the client of the provider above. */
export function useTidings(): Tidings {
  const tidings = useContext(Context);
  if (!tidings) throw new Error('There is no TidingsProvider above');
  return tidings;
}

/** useBadges returns the badges, which are pushed; undefined until they are known. */
export function useBadges(): Badges | undefined {
  const { badges } = useTidings();
  return useSyncExternalStore(badges.subscribe, badges.get, unknown);
}

/** unknown is what a server renders, and so the first rendering on its page, whatever was pushed meanwhile. */
const unknown = () => undefined;

/** A list as the hooks return it. */
export interface UseList<Node, Extra = object> extends ListState<Node, Extra>, Pick<List<Node, Extra>, 'loadNext' | 'refresh'> {}

/** The options of a hook for a list. */
export interface ListOptions {
  /** The number of items in a page, 1 to 100. Default 20. */
  first?: number;
  /** The fields to select of each node beside its id. */
  select?: string;
}

/** A user, as the hooks select them. */
export interface User {
  readonly id: string;
  readonly key: string;
  readonly name: string | null;
  readonly avatarUrl: string | null;
}
const userFields = 'id key name avatarUrl';

/** A post, as useHomeFeed selects it. */
export interface Post {
  readonly id: string;
  readonly author: User;
  readonly body: string;
  readonly publishedAt: string;
}

/**
 * useHomeFeed returns the home feed and the count of new posts in it. Call markSeen as soon as posts are shown, and again when
 * `top`, the first page, is another one: newPosts then counts the posts that came after them. With `select`, pass the type of the
 * selected fields.
 */
export function useHomeFeed<Node extends { readonly id: string } = Post>({ first = 20, select }: ListOptions = {}) {
  const tidings = useTidings();
  const badges = useBadges();
  const [list, state] = useList<Node, object>('homeFeed', '', select ?? `author { ${userFields} } body publishedAt`, '', { first });
  return {
    ...state,
    loadNext: list.loadNext,
    refresh: list.refresh,
    /** How many posts the viewer has not seen, loaded or not. Those that are shown are among them until markSeen. */
    newPosts: badges?.homeFeed as BadgeCount | undefined,
    /** markSeen marks the shown items as seen. Where none are shown it does nothing. */
    markSeen: async () => {
      loaded(list);
      const upTo = list.get().nodes[0]?.id;
      return upTo ? mark(tidings, 'markHomeFeedSeen', 'MarkHomeFeedSeenInput', { upTo }, '', (now) => clear(now, 'homeFeed')) : {};
    },
  };
}

/** A show, as useLiveBoard selects it. */
export interface Show {
  readonly id: string;
  readonly host: User;
  readonly title: string;
  readonly coverUrl: string | null;
  readonly status: 'UPCOMING' | 'LIVE' | 'REPLAY' | 'CANCELLED';
  readonly plannedAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly replayUrl: string | null;
  /** Null if it cannot be read. */
  readonly viewerHasReminder: boolean | null;
}

/** The difference between the board and the one that is shown. */
export interface BoardChange<Node> {
  readonly sessionId: string;
  readonly newSession: boolean;
  readonly wentLive: readonly Node[];
  readonly ended: readonly Node[];
  readonly scheduled: readonly Node[];
  readonly rescheduled: readonly Node[];
  readonly cancelled: readonly Node[];
  readonly more: boolean;
  readonly newAbove: number;
}

/**
 * How long the board waits before it asks for a new session after the server refused its own, in milliseconds. When a session is
 * over it asks at once. It waits as long after each first page that could not be read.
 */
const newSessionAfter = 1000;

/** refusesSession says whether the server does not know the session: its database was restored or is another one. */
function refusesSession(reason: unknown): boolean {
  return Array.isArray(reason) && (reason as readonly GraphQLError[]).some(({ extensions }) => extensions?.argument === 'sessionId');
}

/**
 * useLiveBoard returns the live board. Its order is that of the first page until refresh, and each show is as it is now. A session
 * that is over is followed by a refresh.
 * change describes a new first page. With `select`, pass the type of the selected fields.
 */
export function useLiveBoard<Node extends { readonly id: string } = Show>({ first = 20, select }: ListOptions = {}) {
  const tidings = useTidings();
  const fields = select ?? `host { ${userFields} } title coverUrl status plannedAt startedAt endedAt replayUrl viewerHasReminder`;
  const [list, state] = useList<Node, { sessionId: string }>('liveBoard', '', fields, 'sessionId', { first });
  const [latest, setLatest] = useState<BoardChange<Node>>();
  const [ended, setEnded] = useState<string>(); // the last session that an event said is over
  const sessionId = state.top?.sessionId;
  const change = latest?.sessionId === sessionId ? latest : undefined; // after a refresh the latest is of the former board
  // A later page is of another session if the first page's was over: the rows above it are not of that board.
  const over = ended === sessionId || state.page?.sessionId !== sessionId;
  useEffect(() => {
    if (!sessionId) return undefined;
    const shows = ['wentLive', 'ended', 'scheduled', 'rescheduled', 'cancelled'].map((name) => `${name} { id ${fields} }`).join(' ');
    const watch = `subscription WatchBoard($sessionId: String, $since: Version) { liveBoardChanged(sessionId: $sessionId, since: $since) {
      sessionId newSession ${shows} more newAbove badges { ...TidingsBadges } } } ${BADGES}`;
    let refused: ReturnType<typeof setTimeout> | undefined;
    const stop = tidings.listen<{ liveBoardChanged: BoardChange<Node> }>(watch, { sessionId }, ({ data }) => {
      if (!data?.liveBoardChanged) return;
      // The rows keep what is known of them until the board of the new session is there.
      if (data.liveBoardChanged.sessionId === sessionId) setLatest(data.liveBoardChanged);
      else setEnded(sessionId);
    }, (reason) => {
      if (!refusesSession(reason)) return console.error(reason);
      refused = setTimeout(() => setEnded(sessionId), newSessionAfter);
    });
    return () => {
      clearTimeout(refused);
      stop();
    };
  }, [tidings, sessionId, fields]);
  useEffect(() => {
    if (!sessionId || !over) return undefined;
    let again: ReturnType<typeof setTimeout> | undefined;
    let stopped = false;
    const renew = async () => {
      await list.refresh();
      if (!stopped && list.get().top?.sessionId === sessionId) again = setTimeout(renew, newSessionAfter);
    };
    void renew();
    return () => {
      stopped = true;
      clearTimeout(again);
    };
  }, [list, sessionId, over]);
  const nodes = useMemo(() => {
    const now = new Map<string, Node>();
    for (const shows of [change?.rescheduled, change?.wentLive, change?.ended, change?.cancelled]) for (const show of shows ?? []) now.set(show.id, show);
    return state.nodes.map((node) => now.get(node.id) ?? node);
  }, [state.nodes, change]);
  return {
    ...state,
    nodes,
    loadNext: list.loadNext,
    refresh: list.refresh,
    change,
    /** markSeen marks the shown items as seen. */
    markSeen: async () => {
      loaded(list);
      return mark(tidings, 'markLiveBoardSeen', 'MarkLiveBoardSeenInput', { sessionId: list.get().top?.sessionId }, '', (now) => clear(now, 'liveBoard'));
    },
  };
}

/** A notification, as useNotifications selects it. */
export interface Notification {
  readonly id: string;
  /** The position up to which it was shown, for marks. A mark with it leaves out users who joined later. */
  readonly upTo: string;
  readonly category: string;
  /** For HOST, the category of the application's own and what it told: shown as title and body, with url as where it leads. */
  readonly hostCategory: string | null;
  readonly title: string | null;
  readonly body: string | null;
  readonly url: string | null;
  readonly data: unknown;
  readonly subject: { readonly id: string; readonly body: string } | null;
  readonly show: { readonly id: string; readonly title: string } | null;
  readonly actors: readonly User[];
  readonly actorCount: number;
  readonly at: string;
  readonly seen: boolean;
  readonly read: boolean;
}

/** useNotifications returns the notifications, and whether newer ones have arrived. With `select`, pass the type of the selected fields. */
export function useNotifications<Node extends { readonly id: string } = Notification>({
  first = 20,
  select,
  categories,
  hostCategories,
  unreadOnly = false,
}: ListOptions & { categories?: readonly string[]; hostCategories?: readonly string[]; unreadOnly?: boolean } = {}) {
  const tidings = useTidings();
  const badges = useBadges();
  const fields = `upTo ${select ?? `category hostCategory title body url data subject { id body } show { id title } actors { ${userFields} } actorCount at seen read`}`;
  const chosen = ', categories: $categories, hostCategories: $hostCategories, unreadOnly: $unreadOnly';
  const [list, state] = useList<Node, { readToken: string; newest?: string | null }>('notifications', chosen, fields, 'readToken', { first, categories, hostCategories, unreadOnly });
  const replace = (answer: Answer<Record<string, { notifications?: readonly Node[] | null } | null>>) => {
    for (const payload of Object.values(answer.data ?? {})) if (payload?.notifications) list.replace(payload.notifications);
  };
  const rows = `notifications { id ${fields} }`;
  return {
    ...state,
    loadNext: list.loadNext,
    refresh: list.refresh,
    /** Whether something has arrived since the list was loaded. */
    hasNew: !!state.top && !!badges && state.top.newest !== badges.notifications.newest,
    /** markSeen marks the notifications as seen; they stay unread. Where there are none it does nothing. */
    markSeen: async () => {
      loaded(list);
      const upTo = list.get().top?.newest;
      if (!upTo) return;
      replace(
        await mark(tidings, 'markNotificationsSeen', 'MarkNotificationsSeenInput', { categories, hostCategories, upTo }, rows, (now) =>
          categories || hostCategories ? now : clear(now, 'notifications'),
        ),
      );
    },
    /** markRead marks rows as read: by id with all that joined since, by upTo as far as they were shown. */
    markRead: async (ids: readonly string[]) =>
      replace(await mark(tidings, 'markNotificationsRead', 'MarkNotificationsReadInput', { ids, readToken: list.get().page?.readToken }, rows, (now) => now)),
  };
}

/** loaded throws if nothing of a list has been shown: a mark without a position would be of everything. */
function loaded(list: { get(): { readonly top: unknown; readonly error: Error | undefined } }): void {
  const { top, error } = list.get();
  if (!top) throw error ?? new Error('Nothing is loaded yet');
}

/** mark sends a mutation that returns badges; it rejects if the server refuses the mutation. */
async function mark<Data extends object>(
  tidings: Tidings,
  mutation: string,
  input: string,
  value: object,
  more: string,
  predict: (badges: Badges) => Badges,
): Promise<Answer<Data>> {
  const document = `mutation Mark($input: ${input}!) { ${mutation}(input: $input) { ${more} badges { ...TidingsBadges } } } ${BADGES}`;
  const answer = await tidings.mutate<Record<string, unknown>>(document, { input: value }, predict);
  if (!answer.data?.[mutation]) throw failure(answer.errors);
  return answer as Answer<Data>;
}

/** useList keeps a list of the viewer's, and loads its first page. */
function useList<Node extends { readonly id: string }, Extra>(
  field: string,
  args: string,
  select: string,
  extra: string,
  variables: { first: number; categories?: readonly string[]; hostCategories?: readonly string[]; unreadOnly?: boolean },
): [List<Node, Extra>, ListState<Node, Extra>] {
  const tidings = useTidings();
  const key = JSON.stringify(variables);
  const list = useMemo(() => {
    const declared = args && ', $categories: [NotificationCategory!], $hostCategories: [String!], $unreadOnly: Boolean';
    // shown is what this page reaches: without id and version the guard does not put a newer push in its place.
    const beside = field === 'notifications' ? 'badges { id version notifications { newest } } shown: badges { notifications { newest } }' : '';
    const query = `query List($first: Int, $after: String${declared}) { viewer { id ${beside} ${field}(first: $first, after: $after${args}) {
      edges { node { id ${select} } } pageInfo { hasNextPage endCursor } ${extra} } } }`;
    type Data = { viewer: (Record<string, Connection<Node> & Extra> & { shown?: Badges }) | null };
    return createList<Node, Extra>(tidings, query, JSON.parse(key), ({ viewer }: Data) => {
      const page = viewer?.[field];
      return page && { ...page, newest: viewer.shown?.notifications.newest };
    });
  }, [tidings, field, args, select, extra, key]);
  useEffect(() => {
    if (!list.get().top) void list.loadNext(); // an effect runs again when what was hidden is shown again, as by <Activity>
  }, [list]);
  const state = useSyncExternalStore(list.subscribe, list.get, list.get);
  return [list, state.top || state.error ? state : { ...state, loading: true }]; // from the first rendering on, a server's too
}
