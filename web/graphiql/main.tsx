import { render } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Cell, useCell } from '../demo/src/store.ts';
import { Bar } from './bar.tsx';
import { mount, openInTab, type Link } from './editor.tsx';
import { token } from './identity.ts';
import { Menu, openMenu, toggleMenu } from './menu.tsx';
import { Notices, say, unsay } from './notices.tsx';
import { fetchOperations, filled, find, operations } from './operations.ts';
import { page, takeParameter } from './page.ts';
import { fetchAgain, missing } from './parts.ts';
import { look, trouble, whenBack } from './server.ts';
import { blocked } from './storage.ts';
import { resume } from './watch.ts';
import { Watches } from './watches.tsx';
import './style.css';

// What keeps GraphiQL from starting, in words; "" once it has started.
const waiting = new Cell('GraphiQL is loading.');

function Page() {
  const root = useRef<HTMLDivElement>(null);
  const words = useCell(waiting);
  useEffect(() => void start(root.current!), []);
  return (
    <>
      <Bar />
      <Notices />
      <main>
        {words && <p class="loading" role="status">{words}</p>}
        <div id="graphiql" ref={root} />
      </main>
      <Watches />
      <Menu choose={openInTab} />
    </>
  );
}

/** linked is the operation of the address: ?query= and ?variables=, or ?operation= with the name of a ready-made one. */
function linked(): Link | undefined {
  const query = takeParameter('query');
  const variables = takeParameter('variables') ?? undefined;
  const name = takeParameter('operation');
  if (query) return { query, variables };
  const found = name ? find(name) : undefined;
  if (name && !found) say({ id: 'link', bad: true, text: `There is no ready-made operation ${name}.`, action: { label: 'Show all', run: openMenu }, away: true });
  return found && { query: found.query, variables: variables ?? filled(found.variables ?? '') };
}

/** start draws GraphiQL as soon as its files are there. */
async function start(root: HTMLElement): Promise<void> {
  for (;;) {
    const { scripts, styles } = missing();
    const files = [...scripts, ...styles];
    if (files.length === 0) unsay('files');
    else say({ id: 'files', bad: true, text: `Not all of the page has arrived from the server: ${files.join(', ')} ${files.length > 1 ? 'are' : 'is'} missing. It tries again every few seconds.` });
    if (scripts.length === 0 && (styles.length === 0 || operations.get().length > 0) && (await readied())) break;
    await pause();
    await fetchAgain();
  }
  mount(root, linked());
  waiting.set('');
  if (missing().styles.length > 0) void restyle();
}

/** readied reads the ready-made operations. Without them GraphiQL starts, but not without a server. */
async function readied(): Promise<boolean> {
  try {
    const status = await fetchOperations();
    if (operations.get().length > 0) unsay('operations');
    else say({ id: 'operations', bad: true, text: `The ready-made operations did not arrive: the server answered ${status}. You can write your own.`, action: { label: 'Ask again', run: () => void readied() } });
    return true;
  } catch {
    waiting.set('The server does not answer. GraphiQL starts when it is back.');
    await look();
    return false;
  }
}

async function restyle(): Promise<void> {
  while (missing().styles.length > 0) {
    await pause();
    await fetchAgain();
  }
  unsay('files');
}

const pause = () => new Promise((done) => setTimeout(done, 2000));

/** tellOfServer says in words that the server is gone, for as long as it is. */
function tellOfServer(): void {
  const gone = trouble.get();
  if (!gone) return unsay('gone');
  const since = gone.since.toLocaleTimeString('en-GB');
  const text = gone.why === 'no connection'
    ? `The server at ${location.host} does not answer, since ${since}. Nothing is lost: this page asks every second, and goes on by itself when the server is back.`
    : `The server at ${location.host} takes no requests now, since ${since}: ${gone.why}. This page goes on by itself when it does.`;
  say({ id: 'gone', bad: true, text });
}

function tellOfToken(): void {
  if (page.development || token.get()) {
    unsay('token');
    unsay('refused');
  } else {
    say({
      id: 'token',
      text: <>This server acts for nobody without a token. For a test, <code>tidings token alice</code> prints one when it has the server's key (<code>TIDINGS_JWT_SECRET</code>, or <code>--private-key</code>); an application signs the tokens of its users. Paste it above: it stays in this browser tab until you close the tab or forget it.</>,
    });
  }
}

function tellOfSchema(): void {
  if (page.introspection) return;
  say({
    id: 'schema',
    away: true,
    text: <>The schema is not read here, so the editor completes nothing and has no docs: introspection is switched off on this server, which is the default with a key for tokens. Operations run all the same. <code>tidings schema</code> prints the schema; whoever runs the server can permit it with <code>--introspection always</code>.</>,
  });
}

document.addEventListener('keydown', (event) => {
  if (event.altKey && !event.ctrlKey && !event.metaKey && event.code === 'KeyO') {
    event.preventDefault();
    toggleMenu();
  }
});

trouble.subscribe(tellOfServer);
token.subscribe(tellOfToken);
tellOfToken();
tellOfSchema();
if (blocked) say({ id: 'storage', away: true, text: 'This browser keeps nothing for this page: tabs and settings are gone when you leave it.' });
whenBack(() => void (operations.get().length > 0 || waiting.get() || readied()));
const app = document.getElementById('app')!;
app.replaceChildren();
render(<Page />, app);
resume();
