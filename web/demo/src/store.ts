import { useEffect, useReducer } from 'preact/hooks';

/** A value that changes, and the components that show it. */
export class Cell<Value> {
  private readonly listeners = new Set<() => void>();
  constructor(private value: Value) {}
  get = (): Value => this.value;
  set = (next: Value): void => {
    if (next === this.value) return;
    this.value = next;
    for (const listener of [...this.listeners]) listener();
  };
  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
}

/** useCell returns the value of a cell, now and after each change. */
export function useCell<Value>(cell: Pick<Cell<Value>, 'get' | 'subscribe'>): Value {
  const [, again] = useReducer((turn: number) => turn + 1, 0);
  useEffect(() => {
    again(undefined as never); // it can have changed since it was rendered
    return cell.subscribe(() => again(undefined as never));
  }, [cell]);
  return cell.get();
}
