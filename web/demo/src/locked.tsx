import { useEffect, useState } from 'preact/hooks';
import type { Notification } from '@tidings/client/react';
import { sentence } from './bell.tsx';
import { sinceClick } from './meter.ts';
import { appIcon, Badge, nameOf, type Person } from './parts.tsx';
import { useWords, type Words } from './words.ts';

/** What the demo's application set on the phone, from the change stream. */
interface Set {
  readonly version: string;
  readonly total: number;
  readonly display: string;
  readonly silent: boolean;
  readonly at: string;
  readonly alert: { readonly source: string; readonly at: string; readonly item: Item | null } | null;
}

type Alerted = Pick<Notification, 'category' | 'actors' | 'actorCount'> & { readonly notificationTitle: string | null; readonly notificationBody: string | null };

interface Item extends Partial<Alerted> {
  readonly body?: string;
  readonly announced?: string;
  readonly letter?: string;
  readonly show?: string;
  readonly author?: Person;
  readonly host?: Person;
  readonly lastMessage?: { readonly text: string; readonly author: Person } | null;
}

const again = 1500; // milliseconds, before a stream that ended for good is opened anew

/** useIcon follows what the application sets, and how long each change took, in milliseconds. This page's own subscriptions have no part in it. */
function useIcon() {
  const [icon, setIcon] = useState<{ set: Set; ms?: number; first: boolean }>();
  const [here, setHere] = useState(false);
  useEffect(() => {
    let source: EventSource;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let first = true;
    const open = () => {
      source = new EventSource('/demo/icon');
      source.onopen = () => setHere(true);
      source.onmessage = ({ data }) => {
        const set = JSON.parse(String(data)) as Set;
        const now = Date.now();
        setIcon({ set, first, ms: first ? undefined : sinceClick(now, set.alert ? Date.parse(set.alert.at) : undefined) });
        first = false;
      };
      source.onerror = () => {
        setHere(false);
        first = true; // what is set when the stream is back, is what it missed
        if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, again);
      };
    };
    open();
    return () => {
      clearTimeout(timer);
      source.close();
    };
  }, []);
  return { icon, here };
}

/** Locked is a third phone whose app is closed: a locked screen with its icon, and the last alert. */
export function Locked() {
  const words = useWords();
  const { icon, here } = useIcon();
  const [alert, setAlert] = useState<Set['alert']>();
  useEffect(() => {
    if (icon?.set.alert) setAlert(icon.set.alert);
    else if (icon?.set.total === 0) setAlert(undefined);
  }, [icon]);
  const display = icon?.set.display ?? '';
  const said = !icon ? words.lockedWaits : !here ? words.lockedGone : icon.first ? '' : words.lockedSet(display || '0', icon.ms, icon.set.silent);
  return (
    <section class="locked" aria-label={words.lockedTitle} data-version={icon?.set.version} data-silent={icon?.set.silent} data-here={here}>
      <div class="lockscreen">
        <div class="island" aria-hidden="true" />
        <p class="alert">{alert && <><b>Tidings</b> {tell(alert, words)}</>}</p>
        <div class="app">
          <img src={appIcon} alt="" width="40" height="40" />
          <Badge count={icon && ({ value: icon.set.total, display, inTotal: true, precision: 'EXACT', asOf: null } as never)} spoken={false} />
          <span class="sr">{display && display !== '0' ? words.lockedNumber(display) : words.nothing}</span>
        </div>
      </div>
      <div class="about">
        <h2>{words.lockedTitle}</h2>
        <p class="muted how"><span>{words.lockedHow}</span> <a href="/docs/mobile">{words.lockedMore}</a></p>
        <p class="took" role="status">{said}</p>
      </div>
    </section>
  );
}

/** tell is what an alert says, as an application would. */
function tell({ source, item }: NonNullable<Set['alert']>, words: Words) {
  if (!item) return words.sources[source] ?? source;
  if (item.category) {
    const { category, notificationTitle: title = null, notificationBody: body = null, actors = [], actorCount = 0 } = item;
    return sentence({ category, title, body, actors, actorCount }, words);
  }
  const who = item.author ?? item.lastMessage?.author ?? item.host;
  const text = item.lastMessage?.text ?? item.body ?? item.show ?? item.announced ?? item.letter ?? '';
  return who ? `${nameOf(who)}: ${text}` : text;
}
