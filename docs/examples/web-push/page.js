// The part of the page. `ask` sends GraphQL as the user who is signed in, and returns the data.

// At each start of the page, and once after a press of a button, so that the browser lets you ask for the permission. Each registration
// sets the device's name and whether it gets silent messages: pass the same ones each time.
export async function followIcon(ask, { name, silent = true } = {}) {
  const { pushKey } = (await ask('{ viewer { pushKey } }')).viewer;
  if (!pushKey || !('PushManager' in window) || (await Notification.requestPermission()) !== 'granted') return false;
  const worker = await navigator.serviceWorker.register('/worker.js');
  const subscription = await subscribe(worker.pushManager, pushKey);
  const { endpoint, keys } = subscription.toJSON();
  const { registerDevice } = await ask(`mutation Register($input: RegisterDeviceInput!) {
    registerDevice(input: $input) { badges { total { value } quiet } }
  }`, { input: { endpoint, p256dh: keys.p256dh, auth: keys.auth, name, silent } });
  // What the icon has may be the number of whoever sat here before, or one that fell without a message.
  const { total, quiet } = registerDevice.badges ?? {};
  if (total?.value > 0 && !quiet) await navigator.setAppBadge?.(total.value);
  else if (total) await navigator.clearAppBadge?.();
  return true;
}

// A subscription belongs to one key of the server. With another one the browser subscribes anew.
async function subscribe(manager, pushKey) {
  const options = { userVisibleOnly: true, applicationServerKey: pushKey };
  const there = await manager.getSubscription();
  const bytes = new Uint8Array(there?.options.applicationServerKey ?? []);
  const key = btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
  if (there && key === pushKey) return there;
  await there?.unsubscribe();
  return manager.subscribe(options);
}

// Before the user signs out: the next one who sits here must not see their number, nor the alert that the worker shows.
export async function forgetIcon(ask) {
  const worker = await navigator.serviceWorker.getRegistration('/worker.js');
  const subscription = await worker?.pushManager.getSubscription();
  if (subscription) {
    await ask('mutation Unregister($endpoint: URL!) { unregisterDevice(input: { endpoint: $endpoint }) { changed } }', {
      endpoint: subscription.endpoint,
    });
  }
  for (const shown of (await worker?.getNotifications({ tag: 'tidings' })) ?? []) shown.close();
  await navigator.clearAppBadge?.();
}
