import { Cell, useCell } from './store.ts';

const en = {
  lang: 'EN', title: 'Tidings', other: '中文', otherLabel: '切换到中文',
  headline: 'What is new for me, and how much waits?',
  sub: 'Two phones, one person. Every change is pushed to both, and the numbers stay right, even when Redis loses everything.',
  graphiql: 'Open GraphiQL', docs: 'Docs', books: '/docs/', metrics: 'Metrics',
  phoneLeft: 'Mia’s phone', phoneRight: 'Mia’s other phone', phoneProduction: 'Phone', skip: 'Skip to the levers',
  unread: (n: string) => `${n} unread. Why?`, nothing: 'Nothing waits', why: 'Why this number?', whyTitle: (n: string) => `Why ${n}?`, close: 'Close',
  whyNone: 'This number is 0: nothing waits here.', clear: 'Clear', more: (n: number) => `and ${n} more`, whyHint: 'These rows add up to the number. Hold or right-click a tab or the icon to see its own.',
  home: 'Home', live: 'Live', bell: 'Bell', chat: 'Chat', you: 'You',
  newPosts: (n: string) => (n === '1' ? '1 new post' : `${n} new posts`), newAbove: (n: number) => `${n} new above`, boardChanged: 'The board has changed', newRows: 'New notifications',
  like: 'Like', noPosts: 'No posts yet.', noShows: 'Nobody is live, and nothing is planned.', noRows: 'Nothing has happened to you yet.', noTalks: 'No conversations yet.',
  notRead: (m: string) => `This could not be read: ${m}. It is tried again by itself.`, readAgain: 'Try now',
  makeOne: 'Let Ben post', loading: 'Loading', loadMore: 'Older',
  onAir: 'LIVE', late: 'starts soon', replay: 'Replay', ended: (when: string) => `ended ${when}`, since: (when: string) => `since ${when}`, cancelled: 'Cancelled',
  liked: 'liked your post', commented: 'answered your post', mentioned: 'mentioned you', followed: 'follow you', followedOne: 'follows you', reminded: 'is live now', and: 'and', others: (n: number) => (n === 1 ? '1 other' : `${n} others`), unreadRow: 'unread',
  back: 'Back', say: 'Message', send: 'Send', members: (n: number) => `${n} members`, recalled: 'recalled', youSaid: 'You',
  announcements: 'Announcements', markRead: 'Mark as read', noAnnouncements: 'No announcements.', dots: 'Dots', noDots: 'No dots are lit.', clearDot: (n: string) => `Clear ${n}`,
  policy: 'How my badges look', inTotal: 'In the total', asDot: 'As a dot', quiet: 'Quiet hours, all day',
  sources: { HOME_FEED: 'Home', NOTIFICATIONS: 'Bell', SITE_MESSAGES: 'Letters', ANNOUNCEMENTS: 'Announcements', CONVERSATIONS: 'Chat', LIVE_BOARD: 'Live', VIEWS: 'Views' } as Record<string, string>,
  lockedTitle: 'A third phone, app closed', lockedHow: 'Nothing listens here: the application follows the change stream and sets the icon.', lockedMore: 'How', lockedWaits: 'Waiting for the first change', lockedGone: 'Out of reach, it keeps its number', lockedNumber: (n: string) => `${n} on the icon`,
  lockedSet: (n: string, ms: number | undefined, silent: boolean) => `${n}${ms === undefined ? '' : ` after ${ms} ms`}, ${silent ? 'silently' : 'with an alert'}`,
  counts: 'What counts in the bell', countsAs: 'Counts as', alerts: 'Alerts', onlyCounted: 'Only what counts as a number alerts.',
  modes: { COUNT: 'Number', DOT: 'Dot', OFF: 'Off' }, categories: { LIKE: 'Likes', COMMENT: 'Answers', MENTION: 'Mentions', FOLLOW: 'Followers', REMINDER: 'Reminders' } as Record<string, string>,
  parts: { LIKE: 'likes', COMMENT: 'answers', MENTION: 'mentions', FOLLOW: 'followers', REMINDER: 'reminders' } as Record<string, string>,
  state: { connecting: 'Connecting', online: 'Connected', away: 'Reconnecting', cut: 'No network' },
  wire: 'Tidings', caughtUp: 'caught up',
  levers: 'Levers', leverPost: 'Post as Ben', leverLikes: '500 likes in a second', leverLive: 'Ben goes live', leverSay: 'Say something in the group', leverAnnounce: 'Announce to everyone', leverDot: 'Raise a dot', leverCut: 'Cut the right phone’s network', leverMend: 'Give the network back', leverFlush: 'FLUSHALL Redis',
  flushOnlyDemo: 'Only the Redis of “tidings --demo” can be emptied from here.',
  leversProduction: 'On this server the application acts for people, with a token of its own. Run “tidings --demo” to pull levers.',
  flushed: (keys: number) => `Redis is empty: ${keys} keys are gone. Rebuilding from SQL.`,
  equal: (n: string, ms: number) => `The total is back and equal: ${n} before, ${n} after, in ${ms} ms.`,
  unequal: (a: string, b: string) => `Before: ${a}. After: ${b}.`, alsoYours: (a: string, b: string) => `The total is back: ${a} before, ${b} with what you did in between.`, notSent: 'Not sent: the server does not answer.', flushFailed: 'Redis could not be emptied.', refused: (m: string) => `Refused: ${m}`,
  stormed: (n: number, ms: number) => `${n} likes in ${ms} ms. One row, one number.`,
  what: 'What just happened', whatNone: 'Pull a lever, or touch a phone: its GraphQL appears here.', byHost: 'The application', byLeft: 'The left phone', byRight: 'The right phone', pushed: (who: string) => `Pushed to ${who.toLowerCase()}`, sent: (who: string) => `${who} sent`,
  variables: 'Variables', answer: 'Answer', event: 'Event', copy: 'Copy', copied: 'Copied', openGraphiql: 'Open in GraphiQL', tokenNote: 'Put your token in place of $TOKEN.',
  pushes: 'pushes a second', p99: 'p99 to the phone', drift: 'drift',
  noPush: 'The connection for pushes is lost. The page keeps trying, and the numbers will be right when it is back.',
  gone: 'The server does not answer. The page keeps trying, and the numbers will be right when it is back.',
  tokenTitle: 'Whose phones?', tokenHelp: 'This server is in production: it takes signed tokens. Give the token of one user, and both phones are theirs. It stays in the memory of this page.', tokenLabel: 'Token', tokenGo: 'Connect', tokenBad: 'The server refused this token.',
};

export type Words = typeof en;

const zh: Words = {
  lang: '中文', title: 'Tidings', other: 'EN', otherLabel: 'Switch to English',
  headline: '有什么新消息？还有多少未读？',
  sub: '两部手机，同一个人。每个变化都在几毫秒内推送到两部手机，数字始终正确，即使 Redis 丢失全部数据。',
  graphiql: '打开 GraphiQL', docs: '文档', books: '/docs/quick-start.zh', metrics: '指标',
  phoneLeft: 'Mia 的手机', phoneRight: 'Mia 的另一部手机', phoneProduction: '手机', skip: '跳到操作区',
  unread: (n) => `${n} 条未读。为什么？`, nothing: '没有未读', why: '为什么是这个数字？', whyTitle: (n) => `为什么是 ${n}？`, close: '关闭',
  whyNone: '这个数字是 0：这里没有未读。', clear: '清除', more: (n) => `另有 ${n} 条`, whyHint: '这些行加起来就是这个数字。长按或右键标签或图标，可查看对应的行。',
  home: '首页', live: '直播', bell: '通知', chat: '聊天', you: '我',
  newPosts: (n) => `${n} 条新帖子`, newAbove: (n) => `上方有 ${n} 个新直播`, boardChanged: '直播列表有变化', newRows: '有新通知',
  like: '赞', noPosts: '还没有帖子。', noShows: '现在没有直播，也没有预告。', noRows: '还没有与你有关的通知。', noTalks: '还没有会话。',
  notRead: (m) => `无法读取：${m}。页面会自动重试。`, readAgain: '立即重试',
  makeOne: '让 Ben 发一条', loading: '加载中', loadMore: '更早的',
  onAir: '直播中', late: '即将开始', replay: '回放', ended: (when) => `${when}结束`, since: (when) => `${when}开播`, cancelled: '已取消',
  liked: '赞了你的帖子', commented: '回复了你的帖子', mentioned: '提到了你', followed: '关注了你', followedOne: '关注了你', reminded: '开播了', and: '和', others: (n) => `另外 ${n} 人`, unreadRow: '未读',
  back: '返回', say: '消息', send: '发送', members: (n) => `${n} 位成员`, recalled: '已撤回', youSaid: '我',
  announcements: '公告', markRead: '标为已读', noAnnouncements: '没有公告。', dots: '红点', noDots: '没有亮起的红点。', clearDot: (n) => `清除 ${n}`,
  policy: '角标的显示方式', inTotal: '计入总数', asDot: '只显示红点', quiet: '全天免打扰',
  sources: { HOME_FEED: '首页', NOTIFICATIONS: '通知', SITE_MESSAGES: '站内信', ANNOUNCEMENTS: '公告', CONVERSATIONS: '聊天', LIVE_BOARD: '直播', VIEWS: '栏目' },
  lockedTitle: '第三部手机，应用已关闭', lockedHow: '这里没有订阅：应用读取变化流，再设置图标。', lockedMore: '原理', lockedWaits: '等待第一个变化', lockedGone: '暂时无法到达，数字保持不变', lockedNumber: (n) => `图标上的数字：${n}`,
  lockedSet: (n, ms, silent) => `${n}${ms === undefined ? '' : `，用时 ${ms} 毫秒`}，${silent ? '静默' : '有提醒'}`,
  counts: '通知里哪些计数', countsAs: '计为', alerts: '提醒', onlyCounted: '只有计为数字的才会提醒。',
  modes: { COUNT: '数字', DOT: '红点', OFF: '关闭' }, categories: { LIKE: '赞', COMMENT: '回复', MENTION: '提及', FOLLOW: '关注', REMINDER: '开播提醒' },
  parts: { LIKE: '赞', COMMENT: '回复', MENTION: '提及', FOLLOW: '关注', REMINDER: '开播提醒' },
  state: { connecting: '正在连接', online: '已连接', away: '正在重连', cut: '没有网络' },
  wire: 'Tidings', caughtUp: '已补齐',
  levers: '操作', leverPost: '让 Ben 发帖', leverLikes: '一秒内 500 个赞', leverLive: 'Ben 开播', leverSay: '在群里说句话', leverAnnounce: '向所有人发公告', leverDot: '点亮红点', leverCut: '断开右边手机的网络', leverMend: '恢复网络', leverFlush: 'FLUSHALL 清空 Redis',
  flushOnlyDemo: '只有 “tidings --demo” 自己的 Redis 可以在这里清空。',
  leversProduction: '在这台服务器上，由应用用自己的令牌代表用户操作。运行 “tidings --demo” 即可试用。',
  flushed: (keys) => `Redis 已清空：${keys} 个键。正在从 SQL 重建。`,
  equal: (n, ms) => `总数回来了，而且相等：之前 ${n}，之后 ${n}，用时 ${ms} 毫秒。`,
  unequal: (a, b) => `之前：${a}。之后：${b}。`, alsoYours: (a, b) => `总数回来了：之前 ${a}，加上你刚才的操作，现在 ${b}。`, notSent: '未发送：服务器没有响应。', flushFailed: '无法清空 Redis。', refused: (m) => `被拒绝：${m}`,
  stormed: (n, ms) => `${ms} 毫秒内 ${n} 个赞。一行通知，一个数字。`,
  what: '刚刚发生了什么', whatNone: '试试操作区或任一手机：对应的 GraphQL 会显示在这里。', byHost: '应用', byLeft: '左边的手机', byRight: '右边的手机', pushed: (who) => `推送到${who}`, sent: (who) => `${who}发送`,
  variables: '变量', answer: '响应', event: '事件', copy: '复制', copied: '已复制', openGraphiql: '在 GraphiQL 中打开', tokenNote: '请用你的令牌替换 $TOKEN。',
  pushes: '次推送/秒', p99: '到手机的 p99', drift: '偏差',
  noPush: '推送连接已断开。页面会继续重试，恢复后数字依然正确。',
  gone: '服务器没有响应。页面会继续重试，恢复后数字依然正确。',
  tokenTitle: '谁的手机？', tokenHelp: '这台服务器处于生产模式，只接受签名的令牌。输入一位用户的令牌，两部手机就都属于这位用户。令牌只保存在本页内存中。', tokenLabel: '令牌', tokenGo: '连接', tokenBad: '服务器拒绝了这个令牌。',
};

const key = 'tidings:language';

/** remembered is the language of the last visit, if the browser lets the page store one. */
function remembered(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function firstLanguage(): 'en' | 'zh' {
  const asked = new URLSearchParams(location.search).get('lang') ?? remembered() ?? navigator.language;
  return asked.toLowerCase().startsWith('zh') ? 'zh' : 'en';
}

/** The language of the page. */
export const language = new Cell<'en' | 'zh'>(firstLanguage());

/** speak changes the language, and remembers it. */
export function speak(next: 'en' | 'zh'): void {
  language.set(next);
  try {
    localStorage.setItem(key, next);
  } catch {
    // The browser does not permit it: the next visit begins anew.
  }
}

/** useWords returns the words of the page's language. */
export function useWords(): Words {
  return useCell(language) === 'zh' ? zh : en;
}

/** ago tells how far a time is from now, in few letters. */
export function ago(time: string, now: number): string {
  const seconds = Math.round((Date.parse(time) - now) / 1000);
  const format = new Intl.RelativeTimeFormat(language.get(), { numeric: 'auto', style: 'narrow' });
  if (Math.abs(seconds) < 60) return format.format(seconds > 0 ? seconds : Math.min(seconds, 0), 'second');
  if (Math.abs(seconds) < 3600) return format.format(Math.round(seconds / 60), 'minute');
  if (Math.abs(seconds) < 48 * 3600) return format.format(Math.round(seconds / 3600), 'hour');
  return format.format(Math.round(seconds / 86_400), 'day');
}

/** countdown tells the time until a plan as minutes and seconds. */
export function countdown(time: string, now: number): string | undefined {
  const seconds = Math.round((Date.parse(time) - now) / 1000);
  if (seconds < 0) return undefined;
  const pad = (value: number) => String(value).padStart(2, '0');
  return seconds < 3600 ? `${Math.floor(seconds / 60)}:${pad(seconds % 60)}` : `${Math.floor(seconds / 3600)}:${pad(Math.floor((seconds % 3600) / 60))}:${pad(seconds % 60)}`;
}

/** The time, once a second: for what counts down. */
export const clock = new Cell(Date.now());
setInterval(() => clock.set(Date.now()), 1000);
