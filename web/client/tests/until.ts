import { setTimeout as wait } from 'node:timers/promises';

/** until looks again and again until a condition holds; it fails with what was seen last when that takes longer than 20 s. */
export async function until<Value>(look: () => Value | Promise<Value>, holds: (value: Value) => boolean, what: string): Promise<Value> {
  for (const deadline = Date.now() + 20_000; ; ) {
    const value = await look();
    if (holds(value)) return value;
    if (Date.now() > deadline) throw new Error(`${what}: still ${JSON.stringify(value)}`);
    await wait(5);
  }
}
