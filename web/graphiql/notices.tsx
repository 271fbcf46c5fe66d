import type { ComponentChildren } from 'preact';
import { Cell, useCell } from '../demo/src/store.ts';

export interface Notice {
  readonly id: string;
  /** bad is what keeps the page from working. */
  readonly bad?: boolean;
  readonly text: ComponentChildren;
  readonly action?: { readonly label: string; readonly run: () => void };
  /** Whether the visitor can put it away. */
  readonly away?: boolean;
}

const notices = new Cell<readonly Notice[]>([]);

/** say shows a notice, in place of the one with its id. */
export function say(notice: Notice): void {
  notices.set([...notices.get().filter(({ id }) => id !== notice.id), notice]);
}

export function unsay(id: string): void {
  if (notices.get().some((one) => one.id === id)) notices.set(notices.get().filter((one) => one.id !== id));
}

/** Notices are what the visitor should know, in words. */
export function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {useCell(notices).map(({ id, bad, text, action, away }) => (
        <div key={id} class={`notice${bad ? ' bad' : ''}`} data-notice={id}>
          <p>{text}</p>
          {action && <button type="button" onClick={action.run}>{action.label}</button>}
          {away && <button type="button" class="close" aria-label="Put this notice away" onClick={() => unsay(id)}>×</button>}
        </div>
      ))}
    </div>
  );
}
