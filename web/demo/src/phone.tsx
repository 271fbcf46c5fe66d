import { useEffect, useState } from 'preact/hooks';
import type { BadgeCount, Badges } from '@tidings/client';
import { TidingsProvider, useBadges } from '@tidings/client/react';
import { Bell } from './bell.tsx';
import { Chat } from './chat.tsx';
import { Home } from './home.tsx';
import type { Phone as Device } from './link.ts';
import { Live } from './live.tsx';
import { appIcon, Badge, countOf, Icon, useHold, type IconName } from './parts.tsx';
import { page } from './page.ts';
import { useCell } from './store.ts';
import { Why } from './why.tsx';
import { useWords } from './words.ts';
import { You } from './you.tsx';

type Tab = 'home' | 'live' | 'bell' | 'chat' | 'you';
const tabs: readonly Tab[] = ['home', 'live', 'bell', 'chat', 'you'];
const views = { home: Home, live: Live, bell: Bell, chat: Chat, you: You };
const sources: Record<Tab, string> = { home: 'HOME_FEED', live: 'LIVE_BOARD', bell: 'NOTIFICATIONS', chat: 'CONVERSATIONS', you: 'ANNOUNCEMENTS' };

/** Phone is one phone with its app icon. */
export function Phone({ device, dark, first }: { device: Device; dark: boolean; first: Tab }) {
  return (
    <TidingsProvider tidings={device.tidings}>
      <Body device={device} dark={dark} first={first} />
    </TidingsProvider>
  );
}

function Body({ device, dark, first }: { device: Device; dark: boolean; first: Tab }) {
  const words = useWords();
  const badges = useBadges();
  const state = useCell(device.state);
  const connection = useCell(device.connections);
  const [tab, setTab] = useState<Tab>(first);
  const [opened, setOpened] = useState<Partial<Record<Tab, number>>>({});
  const [why, setWhy] = useState<{ source?: string }>();
  const [trouble, setTrouble] = useState<{ text: string }>();
  const tell = (reason: unknown) => {
    setTrouble({ text: state === 'online' ? words.refused(reason instanceof Error ? reason.message : String(reason)) : words.state[state] });
  };
  useEffect(() => {
    if (!trouble) return undefined;
    // The timer of a former trouble ends only after the next frame, so it may still come to its end beside this one.
    const gone = setTimeout(() => setTrouble((shown) => (shown === trouble ? undefined : shown)), 5000);
    return () => clearTimeout(gone);
  }, [trouble]);
  const open = (next: Tab) => {
    setTab(next);
    setWhy(undefined);
    setOpened({ ...opened, [next]: (opened[next] ?? 0) + 1 });
  };
  const explain = (source: string) => setWhy({ source });
  const total = badges?.total.display ?? '';
  const { held, ...hold } = useHold(() => setWhy({}));
  const waits = total !== '' && total !== '0';
  const title = page.mode === 'production' ? words.phoneProduction : device.side === 'left' ? words.phoneLeft : words.phoneRight;
  return (
    <section class={`device ${device.side}`} aria-label={title} data-state={state} data-version={badges?.version}>
      <div class="desk">
        <button type="button" class="app" aria-label={waits ? words.unread(total) : words.nothing} title={words.whyHint} onClick={() => held() || setWhy(why ? undefined : {})} {...hold}>
          <img src={appIcon} alt="" width="48" height="48" />
          <Badge count={badges?.total} spoken={false} />
        </button>
        <div>
          <h2>{title}</h2>
          <p class={`state ${state}`} role="status">{words.state[state]}</p>
        </div>
      </div>
      <div class={`phone ${dark ? 'dark' : 'light'}`}>
        <div class="island" aria-hidden="true" />
        {tabs.map((name) => {
          const Screen = views[name];
          return (
            <div key={name} class="screen" id={`${device.side}-${name}`} role="tabpanel" aria-labelledby={`${device.side}-${name}-tab`} hidden={tab !== name}>
              <Screen side={device.side} connection={connection} opened={opened[name] ?? 0} shown={tab === name} tell={tell} explain={explain} />
            </div>
          );
        })}
        {why && <Why source={why.source} count={why.source ? countOf(badges, why.source) : undefined} close={() => setWhy(undefined)} tell={tell} />}
        {trouble && <p class="trouble" role="alert">{trouble.text}</p>}
        <div class="tabs" role="tablist" aria-label={title}>
          {tabs.map((name) => (
            <TabButton key={name} name={name} side={device.side} selected={tab === name} count={countOf(badges, sources[name])} lit={lit(name, badges)} open={open} explain={() => explain(sources[name])} />
          ))}
        </div>
      </div>
    </section>
  );
}

/** lit reports whether a tab without a number has a dot: something that its person wants to know of, and not to count. */
function lit(tab: Tab, badges: Badges | undefined): boolean {
  if (tab === 'bell') return !!badges?.notifications.categories.some(({ count }) => !!count.value && !/\d/.test(count.display));
  return tab === 'you' && !!badges?.dots.some((dot) => dot.lit);
}

function TabButton({ name, side, selected, count, lit, open, explain }: { name: Tab; side: string; selected: boolean; count: BadgeCount | undefined; lit: boolean; open: (tab: Tab) => void; explain: () => void }) {
  const words = useWords();
  const { held, ...hold } = useHold(explain);
  const step = (event: KeyboardEvent) => {
    const to = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === '?') explain();
    if (!to) return;
    event.preventDefault();
    const next = tabs[(tabs.indexOf(name) + to + tabs.length) % tabs.length]!;
    document.getElementById(`${side}-${next}-tab`)?.focus();
  };
  const display = count?.display ?? '';
  return (
    <button type="button" role="tab" id={`${side}-${name}-tab`} aria-controls={`${side}-${name}`} aria-selected={selected}
      title={words.whyHint} onClick={() => held() || open(name)} onKeyDown={step} {...hold}>
      <span class="name">{words[name]}</span>
      {display && display !== '0' && <span class="sr">{words.unread(display)}</span>}
      <span class="symbol"><Icon name={name as IconName} /><Badge count={count} lit={lit} spoken={false} /></span>
    </button>
  );
}
