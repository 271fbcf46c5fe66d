// The service worker of an application whose icon has a number: it gets the messages of Web Push while the page is closed.

const known = '/badge-of-the-icon'; // the message that was shown last, in a cache: a worker is ended between two messages
let turn = Promise.resolve(); // messages are shown one after the other

self.addEventListener('push', (event) => {
  const message = event.data.json();
  turn = turn.catch(() => {}).then(() => show(message));
  event.waitUntil(turn);
});

// A message has the whole state, so nothing is added up, and one that comes after a newer one is dropped.
async function show(message) {
  const cache = await caches.open('tidings');
  const before = await (await cache.match(known))?.json();
  const mine = before?.userId === message.userId ? before : undefined; // another user signed in to this browser
  if (mine && message.version <= mine.version) return;
  if (message.total > 0 && message.display) await navigator.setAppBadge?.(message.total); // no display: quiet hours
  else await navigator.clearAppBadge?.();
  // `alert` is a state as well: it is there as long as what it tells of is unread, also if the message that brought it was replaced.
  if (message.alert && message.alert > (mine?.alert ?? '')) {
    await self.registration.showNotification(words(message), { tag: 'tidings', data: message.cause });
  } else if (message.total === 0 || !mine) {
    for (const shown of await self.registration.getNotifications({ tag: 'tidings' })) shown.close();
  }
  await cache.put(known, new Response(JSON.stringify(message)));
}

// What the alert says is up to you: `cause` has the source, the part of it, and the ID of the item.
function words({ cause, display }) {
  const what = { CONVERSATIONS: 'A new message', HOME_FEED: 'A new post' }[cause.source] ?? 'Something new';
  return `${what}, ${display} in all`;
}

self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(self.clients.openWindow('/'));
});
