import { useEffect, useRef, useState } from 'preact/hooks';
import type { BadgeCount } from '@tidings/client';
import { useBadges, useTidings } from '@tidings/client/react';
import { sentence } from './bell.tsx';
import { clicked } from './meter.ts';
import { Icon, nameOf, type Person } from './parts.tsx';
import { ago, useWords, type Words } from './words.ts';

interface Item {
  readonly nodeId: string;
  readonly at: string;
  readonly count: number;
  readonly clearedBy: string;
}
interface Explanation {
  readonly source: string;
  readonly part: string | null;
  readonly count: BadgeCount;
  readonly items: readonly Item[];
}
interface Thing {
  readonly id: string;
  readonly __typename: string;
  readonly body?: string;
  readonly author?: Person;
  readonly title?: string | null;
  readonly key?: string;
  readonly host?: Person;
  readonly category?: string;
  readonly headline?: string | null;
  readonly text?: string | null;
  readonly actors?: readonly Person[];
  readonly actorCount?: number;
  readonly talk?: string | null;
  readonly members?: { readonly nodes: readonly Person[] };
}

const explain = 'query Why { viewer { id badgeExplained { source part count { value display inTotal precision asOf } items { nodeId at count clearedBy } } } }';
const name = `query Rows($ids: [ID!]!) { nodes(ids: $ids) { id __typename
  ... on Post { body author { id key name } } ... on Notification { category headline: title text: body actors { id key name } actorCount }
  ... on Announcement { title } ... on SiteMessage { title } ... on View { key } ... on Show { title host { id key name } }
  ... on Conversation { talk: title members(first: 2) { nodes { id key name } } } } }`;

const most = 30; // rows: after these only their number is told

/** Why lists the very rows behind a number, each with the mutation that clears it. Without a source it is the total. */
export function Why({ source, count, close, tell }: { source: string | undefined; count: BadgeCount | undefined; close: () => void; tell: (reason: unknown) => void }) {
  const words = useWords();
  const tidings = useTidings();
  const badges = useBadges();
  const [rows, setRows] = useState<readonly Explanation[]>();
  const [things, setThings] = useState<ReadonlyMap<string, Thing>>(new Map());
  const dialog = useRef<HTMLDivElement>(null);
  const before = useRef(document.activeElement as HTMLElement | null);
  useEffect(() => {
    dialog.current?.focus();
    return () => before.current?.focus?.();
  }, []);
  useEffect(() => {
    let stale = false;
    void (async () => {
      const { data, errors } = await tidings.request<{ viewer: { badgeExplained: readonly Explanation[] | null } | null }>(explain);
      if (!data?.viewer?.badgeExplained) throw new Error(errors?.[0]?.message ?? words.gone);
      const found = data.viewer.badgeExplained.filter((one) => (source ? one.source === source : one.count.inTotal));
      const ids = found.flatMap(({ items }) => items.slice(0, most).map(({ nodeId }) => nodeId)).slice(0, 100);
      const named = ids.length > 0 ? await tidings.request<{ nodes: readonly (Thing | null)[] }>(name, { ids }) : undefined;
      if (stale) return;
      setThings(new Map(named?.data?.nodes.flatMap((thing) => (thing ? [[thing.id, thing] as const] : []))));
      setRows(found);
    })().catch(tell);
    return () => void (stale = true);
  }, [tidings, source, badges?.version]);
  const clear = async (item: Item) => {
    clicked();
    const { errors } = await tidings.request(item.clearedBy);
    if (errors) tell(new Error(errors[0]?.message));
  };
  const total = source ? count : badges?.total;
  return (
    <div class="why" role="dialog" aria-modal="false" aria-label={words.why} tabIndex={-1} ref={dialog} onKeyDown={(event) => event.key === 'Escape' && close()}>
      <header class="bar">
        <b>{words.whyTitle(total?.display || String(total?.value ?? 0))}</b>
        <button type="button" class="plain icononly" aria-label={words.close} onClick={close}><Icon name="close" size={18} /></button>
      </header>
      <div class="scroll" tabIndex={0} role="group" aria-label={words.why}>
        {rows?.length === 0 && <p class="muted pad">{words.whyNone}</p>}
        {rows?.map((one) => (
          <section key={`${one.source} ${one.part}`}>
            <h3>
              {words.sources[one.source] ?? one.source} <small>{one.part && (words.parts[one.part] ?? one.part)}</small> <b class="tabular sum">{one.count.value}</b>
            </h3>
            <ul class="reasons">
              {one.items.slice(0, most).map((item) => (
                <li key={item.nodeId}>
                  <span>
                    {describe(things.get(item.nodeId), item, words)}
                    <small>{ago(item.at, Date.now())}{item.count > 1 ? ` · ${item.count}` : ''}</small>
                  </span>
                  <button type="button" class="plain" title={item.clearedBy} onClick={() => void clear(item).catch(tell)}>{words.clear}</button>
                </li>
              ))}
              {one.items.length > most && <li class="muted">{words.more(one.items.length - most)}</li>}
            </ul>
          </section>
        ))}
        <p class="muted pad">{words.whyHint}</p>
      </div>
    </div>
  );
}

function describe(thing: Thing | undefined, item: Item, words: Words) {
  if (!thing) return item.nodeId;
  if (thing.category) return sentence({ category: thing.category, title: thing.headline ?? null, body: thing.text ?? null, actors: thing.actors as never, actorCount: thing.actorCount ?? 0 }, words);
  if (thing.author) return <><b>{nameOf(thing.author)}</b> {thing.body}</>;
  if (thing.host) return <><b>{nameOf(thing.host)}</b> {thing.title}</>;
  return <b>{thing.title ?? thing.key ?? thing.talk ?? thing.members?.nodes.map(nameOf).join(', ')}</b>;
}
