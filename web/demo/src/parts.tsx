import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { BadgeCount, Badges } from '@tidings/client';
import { useWords } from './words.ts';

export interface Person {
  readonly id?: string;
  readonly key: string;
  readonly name: string | null;
}

export const nameOf = ({ name, key }: Person): string => name ?? key;

/** Avatar is the first letter of a name on a colour of its own. */
export function Avatar({ person, size = 36 }: { person: Person; size?: number }) {
  let hash = 7;
  for (const letter of person.key) hash = (hash * 31 + letter.charCodeAt(0)) % 360;
  return (
    <span class="avatar" aria-hidden="true" style={{ '--hue': hash, width: size, height: size, fontSize: size * 0.42 } as never}>
      {[...nameOf(person)][0]?.toUpperCase()}
    </span>
  );
}

/** The icon of the app. */
export const appIcon = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 48 48'%3E%3Crect width='48' height='48' rx='12' fill='%232f5d8c'/%3E%3Cpath d='M9 27q7.500-9 15 0t15 0' fill='none' stroke='%23fff' stroke-width='4' stroke-linecap='round'/%3E%3Cpath d='M9 18q7.500-9 15 0t15 0' fill='none' stroke='%23fff' stroke-opacity='.5' stroke-width='4' stroke-linecap='round'/%3E%3C/svg%3E";

/** Badge is a number as the display policy has it: text, a dot, or nothing. It is not spoken where the label beside it has it. */
export function Badge({ count, lit = false, spoken = true }: { count: BadgeCount | undefined; lit?: boolean; spoken?: boolean }) {
  const text = count?.display ?? '';
  const shown = text !== '' && text !== '0';
  if (!shown) return lit ? <span class="badge dot" data-value="dot" aria-hidden="true" /> : null;
  const unsure = count && count.precision !== 'EXACT' && count.precision !== 'AT_LEAST';
  const dot = !/\d/.test(text);
  return (
    <span key={text} class={`badge${dot ? ' dot' : ''}${unsure ? ' unsure' : ''}`} data-value={dot ? 'dot' : text} aria-hidden={!spoken}>
      {dot ? '' : text}
    </span>
  );
}

/** countOf is the number of a source. Letters and views have no tab: their numbers are beside the display policy. */
export function countOf(badges: Badges | undefined, source: string): BadgeCount | undefined {
  if (!badges) return undefined;
  const counts: Record<string, BadgeCount> = {
    HOME_FEED: badges.homeFeed, LIVE_BOARD: badges.liveBoard, NOTIFICATIONS: badges.notifications.total, CONVERSATIONS: badges.conversations.total,
    ANNOUNCEMENTS: badges.announcements, SITE_MESSAGES: badges.siteMessages.total, VIEWS: badges.views,
  };
  return counts[source];
}

const icons = {
  home: 'M4 11.5 12 5l8 6.5V20a1 1 0 0 1-1 1h-4.5v-6h-5v6H5a1 1 0 0 1-1-1z',
  live: 'M12 9.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M7.2 7.2a6.8 6.8 0 0 0 0 9.6M16.8 7.2a6.8 6.8 0 0 1 0 9.6M4.4 4.4a10.8 10.8 0 0 0 0 15.2M19.6 4.4a10.8 10.8 0 0 1 0 15.2',
  bell: 'M6 16.5V11a6 6 0 0 1 12 0v5.5l1.5 2h-15zM10 20.5a2 2 0 0 0 4 0',
  chat: 'M5 5h14a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1h-7l-4.5 4v-4H5a1 1 0 0 1-1-1V6a1 1 0 0 1 1-1z',
  you: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4.5 20.5c.8-3.6 3.8-5.5 7.5-5.5s6.7 1.9 7.5 5.5',
  heart: 'M12 20s-7.5-4.6-7.5-10A4.2 4.2 0 0 1 12 7.5 4.2 4.2 0 0 1 19.5 10c0 5.4-7.5 10-7.5 10z',
  answer: 'M5 6h14v9h-7l-4 3.5V15H5z',
  back: 'M14.5 5.5 8 12l6.5 6.5',
  send: 'M4 12 20 4.5 15.5 20l-3.7-6.3z',
  close: 'M6 6l12 12M18 6 6 18',
  megaphone: 'M4 10v4h3l8 4.5V5.5L7 10zM18.5 9a4 4 0 0 1 0 6',
} as const;

export type IconName = keyof typeof icons;

export function Icon({ name, size = 22 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      <path d={icons[name]} />
    </svg>
  );
}

/** Empty says what is missing, and offers what can be done. */
export function Empty({ icon, children }: { icon: IconName; children: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon name={icon} size={34} />
      {children}
    </div>
  );
}

/** How long a list that could not be read waits until it is read again, in milliseconds. */
export const readAgain = 3000;

/** Failed says why a list is not there, and reads it again by itself. */
export function Failed({ icon, error, again }: { icon: IconName; error: Error; again: () => Promise<void> }) {
  const words = useWords();
  useEffect(() => {
    const timer = setTimeout(() => void again(), readAgain);
    return () => clearTimeout(timer);
  }, [error]);
  return (
    <Empty icon={icon}>
      <p class="failed" role="status">{words.notRead(error.message)}</p>
      <button type="button" class="plain" onClick={() => void again()}>{words.readAgain}</button>
    </Empty>
  );
}

/** Waiting is a list that is not there yet. */
export function Waiting({ label }: { label: string }) {
  return (
    <div class="waiting" role={label ? 'status' : undefined} aria-label={label || undefined}>
      {[0, 1, 2, 3].map((row) => (
        <div key={row} class="bone" aria-hidden="true" />
      ))}
    </div>
  );
}

/**
 * useHeld reports whether a list is held: a finger or a pointer scrolls in it, or it is not at its top. Its order must not change
 * then.
 */
export function useHeld<Element extends HTMLElement>() {
  const ref = useRef<Element>(null);
  const [held, setHeld] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    let down = false;
    let quiet: ReturnType<typeof setTimeout> | undefined;
    const look = () => setHeld(down || element.scrollTop > 8);
    const moved = () => {
      setHeld(true);
      clearTimeout(quiet);
      quiet = setTimeout(look, 1200);
    };
    const press = () => {
      down = true;
      setHeld(true);
    };
    // Once a finger scrolls, its pointer is cancelled and only its touch goes on.
    const release = (event: Event) => {
      if (!down || (event.type === 'pointercancel' && (event as PointerEvent).pointerType === 'touch')) return;
      down = false;
      moved();
    };
    element.addEventListener('pointerdown', press);
    element.addEventListener('touchstart', press, { passive: true });
    element.addEventListener('scroll', moved, { passive: true });
    for (const end of ['pointerup', 'pointercancel', 'touchend', 'touchcancel']) window.addEventListener(end, release);
    return () => {
      clearTimeout(quiet);
      element.removeEventListener('pointerdown', press);
      element.removeEventListener('touchstart', press);
      element.removeEventListener('scroll', moved);
      for (const end of ['pointerup', 'pointercancel', 'touchend', 'touchcancel']) window.removeEventListener(end, release);
    };
  }, []);
  return { ref, held };
}

/** useHold calls then after a long press, a right click or the menu key: the ways to ask for more about something. */
export function useHold(then: () => void) {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const done = useRef(false);
  const down = useRef(false);
  const stop = () => {
    clearTimeout(timer.current);
    down.current = false;
  };
  return {
    onPointerDown: () => {
      done.current = false;
      stop();
      down.current = true;
      timer.current = setTimeout(() => {
        done.current = true;
        then();
      }, 500);
    },
    onPointerUp: stop,
    onPointerLeave: stop,
    onPointerCancel: stop,
    onContextMenu: (event: Event) => {
      event.preventDefault();
      const told = done.current;
      done.current = down.current; // after the menu key comes no click
      stop();
      if (!told) then();
    },
    /** held says whether the click that follows belongs to the long press. */
    held: () => {
      const was = done.current;
      done.current = false;
      return was;
    },
  };
}
