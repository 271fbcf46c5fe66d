import { useEffect, useState } from 'preact/hooks';
import { quantile, times } from './meter.ts';
import { page } from './page.ts';
import { Cell, useCell } from './store.ts';
import { useWords } from './words.ts';

interface Measured {
  readonly pushes: number; // events a second
  readonly drift: number;
}

/** Whether the server answers. */
export const reachable = new Cell(true);

const every = 2000;

/** useMetrics reads the server's metrics; undefined until there are two readings. */
function useMetrics(): Measured | undefined {
  const [measured, setMeasured] = useState<Measured>();
  useEffect(() => {
    let former: { at: number; events: number } | undefined;
    const read = async () => {
      if (document.hidden) return;
      try {
        const response = await fetch('/metrics');
        reachable.set(true);
        if (!response.ok) return;
        const text = await response.text();
        const value = (name: string) => Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1] ?? NaN);
        const now = { at: performance.now(), events: value('tidings_socket_events_total') };
        if (former && now.events >= former.events) {
          setMeasured({ pushes: ((now.events - former.events) * 1000) / (now.at - former.at), drift: value('tidings_badge_drift_total') });
        }
        former = now;
      } catch {
        reachable.set(false);
        former = undefined;
      }
    };
    void read();
    const timer = setInterval(() => void read(), every);
    return () => clearInterval(timer);
  }, []);
  return measured;
}

/** Foot has the server's own numbers. */
export function Foot() {
  const words = useWords();
  const measured = useMetrics();
  const p99 = quantile(useCell(times), 0.99);
  return (
    <footer class="foot">
      <dl>
        <div><dt>{words.pushes}</dt><dd class="tabular" data-foot="pushes">{measured ? measured.pushes.toFixed(1) : '–'}</dd></div>
        <div><dt>{words.p99}</dt><dd class="tabular" data-foot="p99">{p99 === undefined ? '–' : `${Math.round(p99)} ms`}</dd></div>
        <div><dt>{words.drift}</dt><dd class="tabular" data-foot="drift">{measured && measured.drift >= 0 ? measured.drift : '–'}</dd></div>
      </dl>
      <p>
        Tidings {page.version} · <a href="/graphiql">GraphiQL</a> · <a href="/metrics">{words.metrics}</a>
      </p>
    </footer>
  );
}
