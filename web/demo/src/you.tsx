import { useEffect, useState } from 'preact/hooks';
import { BADGES, type BadgeCount } from '@tidings/client';
import { useBadges, useTidings } from '@tidings/client/react';
import { clicked } from './meter.ts';
import { Badge, countOf } from './parts.tsx';
import type { View } from './view.ts';
import { Preferences } from './prefs.tsx';
import { useWords } from './words.ts';

interface Announcement {
  readonly id: string;
  readonly title: string;
  readonly content: string;
  readonly unread: boolean | null;
}
interface Policy {
  readonly sources: readonly { readonly source: string; readonly inTotal: boolean; readonly style: 'NUMBER' | 'DOT' }[];
  readonly quietHours: { readonly from: string; readonly to: string; readonly offsetMinutes: number } | null;
}

const policyFields = 'sources { source inTotal style } quietHours { from to offsetMinutes }';
const query = `query You { viewer { id announcements(first: 5) { nodes { id title content unread } } displayPolicy { ${policyFields} } } }`;
const markRead = `mutation MarkAnnouncementsRead($input: MarkAnnouncementsReadInput!) { markAnnouncementsRead(input: $input) { announcements { id unread } badges { ...TidingsBadges } } } ${BADGES}`;
const clearDot = `mutation ClearDot($input: ClearDotInput!) { clearDot(input: $input) { dot { name lit } badges { ...TidingsBadges } } } ${BADGES}`;
const setPolicy = `mutation SetDisplayPolicy($input: SetDisplayPolicyInput!) { setDisplayPolicy(input: $input) { policy { ${policyFields} } badges { ...TidingsBadges } } } ${BADGES}`;

/** You has what is for everybody, announcements and dots, and how one's own badges look. */
export function You({ side, connection, shown, tell, explain }: View) {
  const words = useWords();
  const tidings = useTidings();
  const badges = useBadges();
  const [announcements, setAnnouncements] = useState<readonly Announcement[]>();
  const [policy, setPolicyState] = useState<Policy>();
  // The announcements and the policy are read again when the badges say that they have changed.
  const trigger = `${connection} ${shown} ${badges?.announcements.value} ${badges?.quiet} ${badges && JSON.stringify([badges.homeFeed, badges.notifications.total, badges.conversations.total, badges.liveBoard, badges.announcements, badges.siteMessages.total, badges.views].map(({ inTotal }) => inTotal))}`;
  useEffect(() => {
    let over = false; // the answer of a former read changes nothing
    void tidings.request<{ viewer: { announcements: { nodes: readonly Announcement[] } | null; displayPolicy: Policy | null } | null }>(query).then(({ data }) => {
      if (over) return;
      if (data?.viewer?.announcements) setAnnouncements(data.viewer.announcements.nodes);
      if (data?.viewer?.displayPolicy) setPolicyState(data.viewer.displayPolicy);
    }, () => undefined);
    return () => {
      over = true;
    };
  }, [tidings, trigger]);
  const mutate = async (document: string, input: object) => {
    clicked();
    try {
      const { data, errors } = await tidings.request<Record<string, { policy?: Policy } | null>>(document, { input });
      const payload = Object.values(data ?? {})[0];
      if (!payload) throw new Error(errors?.[0]?.message);
      if (payload.policy) setPolicyState(payload.policy);
    } catch (reason) {
      tell(reason);
    }
  };
  const lit = badges?.dots.filter((dot) => dot.lit) ?? [];
  return (
    <div class="view">
      <div class="scroll you" tabIndex={0} role="group" aria-label={words.you}>
        <section>
          <h3>{words.announcements}</h3>
          {announcements?.length === 0 && <p class="muted">{words.noAnnouncements}</p>}
          {announcements?.map((one) => (
            <article key={one.id} class={`notice${one.unread ? ' unread' : ''}`}>
              <b>{one.title}</b>
              {one.content && <p>{one.content}</p>}
              {one.unread && <button type="button" class="plain" onClick={() => void mutate(markRead, { upTo: one.id })}>{words.markRead}</button>}
            </article>
          ))}
        </section>
        <section>
          <h3>{words.dots}</h3>
          {lit.length === 0 && <p class="muted">{words.noDots}</p>}
          {lit.map(({ name }) => (
            <button key={name} type="button" class="chip" aria-label={words.clearDot(name)} onClick={() => void mutate(clearDot, { name })}>
              <span class="badge dot" /> {name}
            </button>
          ))}
        </section>
        <section>
          <h3>{words.policy}</h3>
          <table class="policy">
            <thead>
              <tr><td /><th scope="col">{words.inTotal}</th><th scope="col">{words.asDot}</th></tr>
            </thead>
            <tbody>
              {policy?.sources.map(({ source, inTotal, style }) => (
                <tr key={source}>
                  <th scope="row">{words.sources[source] ?? source} {untabbed.has(source) && <Behind count={countOf(badges, source)} explain={() => explain(source)} />}</th>
                  <td><input type="checkbox" checked={inTotal} aria-label={`${words.sources[source]}: ${words.inTotal}`} onChange={() => void mutate(setPolicy, { sources: [{ source, inTotal: !inTotal }] })} /></td>
                  <td><input type="checkbox" checked={style === 'DOT'} aria-label={`${words.sources[source]}: ${words.asDot}`} onChange={() => void mutate(setPolicy, { sources: [{ source, style: style === 'DOT' ? 'NUMBER' : 'DOT' }] })} /></td>
                </tr>
              ))}
            </tbody>
          </table>
          <label class="switch">
            <input type="checkbox" checked={!!policy?.quietHours} onChange={() => void mutate(setPolicy, { quietHours: policy?.quietHours ? null : allDay() })} /> {words.quiet}
          </label>
        </section>
        <Preferences side={side} connection={connection} shown={shown} tell={tell} />
      </div>
    </div>
  );
}

/** The sources without a tab of their own. */
const untabbed: ReadonlySet<string> = new Set(['SITE_MESSAGES', 'VIEWS']);

/** Behind is a number that shows the rows behind it. */
function Behind({ count, explain }: { count: BadgeCount | undefined; explain: () => void }) {
  const words = useWords();
  if (!count?.value) return null;
  return (
    <button type="button" class="behind" aria-label={words.unread(String(count.value))} onClick={explain}>
      <Badge count={count} spoken={false} />
    </button>
  );
}

/** allDay are quiet hours that are in effect now: the 23 hours from the start of this one. */
function allDay() {
  const hour = new Date().getHours();
  const text = (value: number) => `${String((value + 24) % 24).padStart(2, '0')}:00`;
  return { from: text(hour), to: text(hour - 1), offsetMinutes: -new Date().getTimezoneOffset() };
}
