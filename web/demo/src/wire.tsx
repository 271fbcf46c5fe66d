import { dots, latest } from './meter.ts';
import { useCell } from './store.ts';
import { useWords } from './words.ts';

/** Wire is what lies between the phones: each push travels on it as a dot, with its time. */
export function Wire() {
  const words = useWords();
  const flying = useCell(dots);
  const told = useCell(latest);
  return (
    <div class="wire" aria-hidden="true">
      <span class="line" />
      <span class="hub">{words.wire}</span>
      {(['left', 'right'] as const).map((side) => {
        const own = flying.filter((dot) => dot.side === side);
        const newest = told[side];
        return (
          <span key={side} class={`track ${side}`}>
            {own.map((dot) => <i key={dot.id} class="push" />)}
            {newest && <b key={newest.id} class={`ms tabular${newest.caughtUp ? ' words' : ''}`} data-side={side}>{newest.caughtUp ? words.caughtUp : newest.ms === undefined ? '' : `${Math.max(1, Math.round(newest.ms))} ms`}</b>}
          </span>
        );
      })}
    </div>
  );
}
