import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Drawer } from './drawer.tsx';
import { Foot, reachable } from './foot.tsx';
import { createPhone } from './link.ts';
import { Levers, shaken } from './levers.tsx';
import { Locked } from './locked.tsx';
import { page, session } from './page.ts';
import { Waiting } from './parts.tsx';
import { Phone } from './phone.tsx';
import { useCell } from './store.ts';
import { Wire } from './wire.tsx';
import { speak, useWords } from './words.ts';
import './style.css';

const phones = [createPhone('left'), createPhone('right')] as const;

/** useTitle puts the total into the title and the icon of the page. */
function useTitle() {
  const { badges } = phones[0].tidings;
  useEffect(() => {
    const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]');
    const plain = icon?.href;
    const show = () => {
      const display = badges.get()?.total.display ?? '';
      const total = display === '0' ? '' : display;
      document.title = total ? `(${total}) Tidings` : 'Tidings';
      if (icon) icon.href = (total && draw(total)) || plain!;
    };
    const stop = badges.subscribe(show);
    show();
    return () => {
      stop();
      if (icon && plain) icon.href = plain;
    };
  }, [badges]);
}

/** draw makes an icon with a number. */
function draw(total: string): string | undefined {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 64;
  const pen = canvas.getContext('2d');
  if (!pen) return undefined;
  pen.fillStyle = '#2f5d8c';
  pen.beginPath();
  pen.roundRect(0, 8, 52, 52, 13);
  pen.fill();
  pen.fillStyle = '#c8261b';
  pen.beginPath();
  pen.roundRect(total.length > 1 ? 18 : 26, 0, total.length > 1 ? 46 : 38, 38, 19);
  pen.fill();
  pen.fillStyle = '#fff';
  pen.font = `bold ${total.length > 2 ? 22 : 28}px system-ui, sans-serif`;
  pen.textAlign = 'center';
  pen.textBaseline = 'middle';
  pen.fillText(total, total.length > 1 ? 41 : 45, 20);
  return canvas.toDataURL();
}

function Stage() {
  useTitle();
  const trembling = useCell(shaken);
  return (
    <div class="show-and-tell">
      <div class="play">
        <div class={`stage${trembling ? ' shaken' : ''}`}>
          <Phone device={phones[0]} dark={false} first="home" />
          <Wire />
          <Phone device={phones[1]} dark first="live" />
        </div>
        {page.mode === 'demo' && <Locked />}
        <Levers phones={phones} />
      </div>
      <Drawer />
    </div>
  );
}

/** Door asks whose phones they are, on a server that wants a signed token. */
function Door({ enter }: { enter: () => void }) {
  const words = useWords();
  const [bad, setBad] = useState('');
  const [token, setToken] = useState('');
  const connect = async (event: Event) => {
    event.preventDefault();
    try {
      const response = await fetch(page.endpoint, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token.trim()}` },
        body: JSON.stringify({ query: '{ viewer { id user { key } } }' }),
      });
      const { data, errors } = (await response.json()) as { data?: { viewer: { user: { key: string } | null } | null }; errors?: { message: string }[] };
      if (!data?.viewer?.user) return setBad(errors?.[0]?.message ?? words.tokenBad);
      session.token = token.trim();
      session.viewer = data.viewer.user.key;
      enter();
    } catch {
      setBad(words.gone);
    }
  };
  return (
    <div class="at-the-door">
    <form class="door" onSubmit={(event) => void connect(event)}>
      <h2>{words.tokenTitle}</h2>
      <p>{words.tokenHelp}</p>
      <label>
        {words.tokenLabel}
        <input type="password" required autoComplete="off" spellcheck={false} value={token} onInput={({ currentTarget }) => setToken(currentTarget.value)} />
      </label>
      {bad && <p class="said bad" role="alert">{bad}</p>}
      <button class="lever primary">{words.tokenGo}</button>
    </form>
    <div class="ghosts" aria-hidden="true">
      {['light', 'dark'].map((look) => <div key={look} class={`phone ${look}`}><div class="island" /><Waiting label="" /></div>)}
    </div>
    </div>
  );
}

function Page() {
  const words = useWords();
  const here = useCell(reachable);
  const left = useCell(phones[0].state);
  const [known, setKnown] = useState(page.mode !== 'production');
  useEffect(() => {
    document.documentElement.lang = words.lang === 'EN' ? 'en' : 'zh';
  }, [words]);
  const trouble = !known ? '' : !here ? words.gone : left === 'away' ? words.noPush : '';
  return (
    <>
      <header class="top">
        {known && <a class="skip" href="#levers">{words.skip}</a>}
        <span class="brand">Tidings</span>
        <nav aria-label="Tidings">
          <a href={words.books}>{words.docs}</a>
          <a href="/graphiql">{words.graphiql}</a>
          <button type="button" class="plain" title={words.otherLabel} lang={words.lang === 'EN' ? 'zh' : 'en'} onClick={() => speak(words.lang === 'EN' ? 'zh' : 'en')}>{words.other}</button>
        </nav>
      </header>
      <main>
        <div class="hero">
          <h1>{words.headline}</h1>
          <p>{words.sub}</p>
        </div>
        <p class={`gone${trouble ? ' on' : ''}`} role="status">{trouble}</p>
        {known ? <Stage /> : <Door enter={() => setKnown(true)} />}
      </main>
      <Foot />
    </>
  );
}

const root = document.getElementById('app')!;
root.replaceChildren();
render(<Page />, root);
