import { useEffect, useRef, useState } from 'preact/hooks';
import { BADGES } from '@tidings/client';
import { useBadges, useTidings } from '@tidings/client/react';
import { clicked } from './meter.ts';
import { useWords } from './words.ts';

type Mode = 'COUNT' | 'DOT' | 'OFF';
const modes: readonly Mode[] = ['COUNT', 'DOT', 'OFF'];

interface Preference {
  readonly category: string;
  readonly mode: Mode;
  readonly push: boolean;
}

const fields = 'category mode push';
const query = `query Preferences { viewer { id preferences { categories { ${fields} } } } }`;
const setPreference = `mutation SetCategoryPreference($input: SetCategoryPreferenceInput!) { setCategoryPreference(input: $input) { preference { ${fields} } badges { ...TidingsBadges } } } ${BADGES}`;

/** Preferences is what counts for the person, and what may alert them, by category of notifications. */
export function Preferences({ side, connection, shown, tell }: { side: string; connection: number; shown: boolean; tell: (reason: unknown) => void }) {
  const words = useWords();
  const tidings = useTidings();
  const version = useBadges()?.version;
  const [categories, setCategories] = useState<readonly Preference[]>([]);
  // A choice on another device is a new version of the badges.
  useEffect(() => {
    if (!shown) return undefined;
    let over = false;
    void tidings.request<{ viewer: { preferences: { categories: readonly Preference[] } | null } | null }>(query).then(({ data }) => {
      if (!over && data?.viewer?.preferences) setCategories(data.viewer.preferences.categories);
    }, () => undefined);
    return () => {
      over = true;
    };
  }, [tidings, connection, shown, version]);
  // The arrows go through the modes faster than the network: each choice is sent after the one before.
  const sent = useRef<Promise<void>>(Promise.resolve());
  const choose = (category: string, change: Partial<Preference>) => {
    sent.current = sent.current.then(() => send(category, change));
  };
  const send = async (category: string, change: Partial<Preference>) => {
    clicked();
    try {
      const { data, errors } = await tidings.request<{ setCategoryPreference: { preference: Preference | null } | null }>(setPreference, { input: { category, ...change } });
      const chosen = data?.setCategoryPreference?.preference;
      if (!chosen) throw new Error(errors?.[0]?.message);
      setCategories((all) => all.map((one) => (one.category === category ? chosen : one)));
    } catch (reason) {
      setCategories((all) => [...all]); // the box goes back to what is true
      tell(reason);
    }
  };
  if (categories.length === 0) return null;
  return (
    <section>
      <h3>{words.counts}</h3>
      <table class="preferences">
        <thead>
          <tr><td /><th scope="col">{words.countsAs}</th><th scope="col">{words.alerts}</th></tr>
        </thead>
        <tbody>
          {categories.map(({ category, mode, push }) => {
            const name = words.categories[category] ?? category;
            return (
              <tr key={category} data-category={category}>
                <th scope="row">{name}</th>
                <td>
                  <span class="choice" role="radiogroup" aria-label={`${name}: ${words.countsAs}`}>
                    {modes.map((one) => (
                      <label key={one}>
                        <input type="radio" name={`${side}-${category}`} value={one} checked={mode === one} onChange={() => choose(category, { mode: one })} />
                        <span>{words.modes[one]}</span>
                      </label>
                    ))}
                  </span>
                </td>
                <td><input type="checkbox" checked={push && mode === 'COUNT'} disabled={mode !== 'COUNT'} aria-label={`${name}: ${words.alerts}`} title={mode === 'COUNT' ? undefined : words.onlyCounted} onChange={() => choose(category, { push: !push })} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
