import { useEffect, useRef, useState } from 'preact/hooks';
import { useCell } from '../demo/src/store.ts';
import { bePerson, claimsOf, forgetToken, person, token, useToken } from './identity.ts';
import { menuKey, openMenu } from './menu.tsx';
import { page } from './page.ts';
import { open, watches } from './watch.ts';

const people = ['alice', 'bob', 'carol', 'alice:admin', 'host:ingest'];
const shown = (one: string) => claimsOf(`dev:${one}`).who;

/** People is the bar of development mode: anybody at a click. */
function People() {
  const present = useCell(person);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    bePerson(new FormData(form).get('person') as string);
    form.reset();
  };
  return (
    <div id="identity">
      <span class="who">You are <output id="who">{shown(present)}</output></span>
      <span id="people" role="group" aria-label="Be somebody" tabIndex={-1}>
        {people.map((one) => (
          <button key={one} type="button" data-person={one} aria-pressed={one === present} onClick={() => bePerson(one)}>{shown(one)}</button>
        ))}
      </span>
      <form id="other" onSubmit={submit}>
        <input name="person" aria-label="Another user" placeholder="another user" size={12} maxLength={1600} autoComplete="off" autoCapitalize="none" spellcheck={false} required
          title="A key of 1 to 128 printable characters; :admin or :ingest after it adds a scope" />
        <button>Be</button>
      </form>
      <strong class="mode" title="No key for tokens is configured, so anyone who reaches this address can act as any user. Not for production.">Development mode</strong>
    </div>
  );
}

/** left says how long a token still lasts. */
function left(expires: number | undefined, now: number): string {
  if (!expires) return '';
  const seconds = Math.round((expires - now) / 1000);
  if (seconds <= 0) return 'expired';
  if (seconds < 120) return `${seconds} s left`;
  if (seconds < 2 * 3600) return `${Math.round(seconds / 60)} min left`;
  return seconds < 48 * 3600 ? `${Math.round(seconds / 3600)} h left` : `${Math.round(seconds / 86400)} days left`;
}

function useNow(every: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** Token is the bar of production mode: a place for the token of a user. */
function Token() {
  const present = useCell(token);
  const now = useNow(1000);
  const [wrong, setWrong] = useState('');
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const forgotten = useRef(false);
  useEffect(() => {
    if (!present && forgotten.current) field.current?.focus();
  }, [present]);
  if (present) {
    const { who, expires } = claimsOf(present);
    return (
      <div id="identity">
        <span class="who">Your token is for <output id="who">{who}</output></span>
        {expires && <span class={`left${expires <= now ? ' wrong' : ''}`}>{left(expires, now)}</span>}
        <button type="button" id="forget" onClick={() => { forgotten.current = true; forgetToken(); }}>Forget it</button>
      </div>
    );
  }
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setWrong((await useToken(field.current!.value)) ?? '');
    setBusy(false);
  };
  return (
    <form id="identity" class="token" onSubmit={(event) => void submit(event)}>
      <label for="token">Token</label>
      <input id="token" ref={field} type="password" required placeholder="paste one: tidings token alice" autoComplete="off" spellcheck={false} aria-invalid={wrong !== ''} aria-describedby="token-wrong" />
      <button disabled={busy}>Use it</button>
      <span id="token-wrong" class="wrong" role="alert">{wrong}</span>
    </form>
  );
}

/** Bar is the head of the page. */
export function Bar() {
  const count = useCell(watches).length;
  const paneOpen = useCell(open);
  return (
    <header class="bar">
      <a class="skip" href="#graphiql-session">Skip to the editors</a>
      <span class="brand"><a href="/">Tidings</a> <h1>GraphiQL</h1> <small>{page.version}</small> <a class="books" href="/docs/">Docs</a></span>
      <button type="button" id="operations" class="strong" aria-haspopup="dialog" aria-keyshortcuts={menuKey} title={`All ready-made operations (${menuKey})`} onClick={openMenu}>
        Operations <kbd aria-hidden="true">{menuKey}</kbd>
      </button>
      <button type="button" id="watching" aria-expanded={paneOpen} aria-controls={paneOpen ? 'watches' : undefined} title="The events of the subscriptions that you run" onClick={() => open.set(!paneOpen)}>
        Watches{count > 0 && <b class="count">{count}</b>}
      </button>
      {page.development ? <People /> : <Token />}
    </header>
  );
}
