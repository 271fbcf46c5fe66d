import { useEffect, useMemo } from 'preact/hooks';
import { Cell, useCell } from '../demo/src/store.ts';
import { kindOf, nameOf, operations, purposeOf, type Ready } from './operations.ts';

// Whether the menu is open is the dialog's own to say: its close event comes later than its end, and a copy of that state would
// ignore who opens it again in between.
const dialog = () => document.querySelector<HTMLDialogElement>('#menu');
const searched = new Cell('');
const pointed = new Cell<Ready | undefined>(undefined);

/** openMenu opens the menu, with nothing searched. */
export function openMenu(): void {
  if (dialog()?.open !== false) return;
  searched.set('');
  pointed.set(undefined);
  dialog()?.showModal();
  document.getElementById('menu-list')?.scrollTo(0, 0);
}

/** toggleMenu opens the menu, or closes it. */
export function toggleMenu(): void {
  if (dialog()?.open) dialog()?.close();
  else openMenu();
}

/** The key that opens the menu, as it is written and as a browser names it. */
export const menuKey = 'Alt+O';

const words = (one: Ready) => `${nameOf(one)} ${nameOf(one).replace(/(?=[A-Z])/g, ' ')} ${one.slug} ${one.group} ${kindOf(one)} ${purposeOf(one)}`.toLowerCase();

/** search answers the operations in which each word of a text occurs, by their groups. */
function search(all: readonly Ready[], text: string): [group: string, ready: Ready[]][] {
  const asked = text.toLowerCase().split(/\s+/);
  const groups = new Map<string, Ready[]>();
  for (const one of all) {
    const has = words(one);
    if (asked.every((word) => has.includes(word))) groups.set(one.group, [...(groups.get(one.group) ?? []), one]);
  }
  return [...groups];
}

/** best is the operation that a text names, as far as it can be told: whole, in its beginning, or in part. */
function best(found: readonly Ready[], text: string): Ready | undefined {
  const asked = text.toLowerCase().replaceAll(' ', '');
  const named = (fits: (name: string) => boolean) => found.find((one) => fits(nameOf(one).toLowerCase()));
  return named((name) => name === asked) ?? named((name) => name.startsWith(asked)) ?? named((name) => name.includes(asked)) ?? found[0];
}

/** Menu is the dialog of all ready-made operations: a field to search in, and a list that the arrow keys walk through. */
export function Menu({ choose }: { choose: (one: Ready) => void }) {
  const all = useCell(operations);
  const text = useCell(searched);
  const at = useCell(pointed);
  const groups = useMemo(() => search(all, text), [all, text]);
  const flat = groups.flatMap(([, ready]) => ready);
  const chosen = at ?? best(flat, text);
  useEffect(() => document.getElementById(`ready-${chosen?.slug}`)?.scrollIntoView({ block: 'nearest' }), [chosen]);
  const take = (one: Ready | undefined) => {
    if (!one) return;
    dialog()?.close(); // which gives the focus back, so that it comes first
    choose(one);
  };
  const keys = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step) pointed.set(flat[Math.max(0, Math.min(flat.length - 1, flat.indexOf(chosen!) + step))]);
    else if (event.key === 'Enter') take(chosen);
    else return;
    event.preventDefault();
  };
  return (
    <dialog id="menu" aria-labelledby="menu-title" onClick={({ target }) => target === dialog() && dialog()?.close()}>
      <div class="sheet">
        <h2 id="menu-title">Operations</h2>
        <input type="text" role="combobox" aria-expanded="true" aria-controls="menu-list" aria-activedescendant={chosen && `ready-${chosen.slug}`} aria-label="Search the operations"
          placeholder="Search: badges, watch, mute…" autoComplete="off" spellcheck={false} value={text}
          onInput={({ currentTarget }) => { searched.set(currentTarget.value); pointed.set(undefined); }} onKeyDown={keys} />
        <button type="button" class="close" aria-label="Close the menu" onClick={() => dialog()?.close()}>×</button>
        <div id="menu-list" role="listbox" aria-label="Operations" tabIndex={-1}>
          {groups.map(([group, ready]) => (
            <div key={group} role="group" aria-label={group}>
              <div class="group" aria-hidden="true">{group}</div>
              {ready.map((one) => (
                <div key={one.slug} id={`ready-${one.slug}`} class={`ready${one === chosen ? ' chosen' : ''}`} role="option" aria-selected={one === chosen}
                  onClick={() => take(one)} onMouseMove={() => one !== chosen && pointed.set(one)}>
                  <span class="name">{nameOf(one)}</span>
                  <span class={`kind ${kindOf(one)}`}>{kindOf(one)}</span>
                  <span class="purpose">{purposeOf(one)}</span>
                </div>
              ))}
            </div>
          ))}
        </div>
        {flat.length === 0 && <p class="none" role="status">{all.length === 0 ? 'The ready-made operations have not arrived from the server.' : `No operation has "${text}" in it.`}</p>}
        <p class="keys" aria-hidden="true"><kbd>↑</kbd> <kbd>↓</kbd> to choose, <kbd>Enter</kbd> to open in a tab, <kbd>Esc</kbd> to leave</p>
      </div>
    </dialog>
  );
}
