import { Cell } from '../demo/src/store.ts';
import { page } from './page.ts';

/** Whether the server answers: undefined while it does, else since when it does not, and why as far as it is known. */
export const trouble = new Cell<{ readonly since: Date; readonly why: string } | undefined>(undefined);

const calm = 5000; // between two questions whether the server is there
const eager = 1000; // the same while it is not
const patience = 5000; // for the answer

let waiting: ReturnType<typeof setTimeout> | undefined;
let asking: Promise<void> | undefined;

async function ask(): Promise<void> {
  let why = '';
  try {
    const response = await fetch('/readyz', { cache: 'no-store', signal: AbortSignal.timeout(patience) });
    const text = await response.text();
    if (response.status >= 500) why = text.trim().slice(0, 200) || `it answers ${response.status}`;
  } catch {
    why = 'no connection';
  }
  const former = trouble.get();
  if (why && why !== former?.why) trouble.set({ since: former?.since ?? new Date(), why });
  else if (!why) trouble.set(undefined);
}

/** look asks the server now whether it is there. */
export function look(): Promise<void> {
  clearTimeout(waiting);
  asking ??= ask().finally(() => {
    asking = undefined;
    waiting = setTimeout(() => void (document.hidden || look()), trouble.get() ? eager : calm);
  });
  return asking;
}

/** whenBack calls back each time that the server is there again. */
export function whenBack(then: () => void): void {
  let gone = false;
  trouble.subscribe(() => {
    const back = gone && !trouble.get();
    gone = Boolean(trouble.get());
    if (back) then();
  });
}

document.addEventListener('visibilitychange', () => void (document.hidden || look()));
window.addEventListener('online', () => void look());
window.addEventListener('offline', () => void look());

export interface GraphQLAnswer {
  data?: Record<string, unknown> | null;
  errors?: { message: string; extensions?: { code?: string } }[];
}

export interface Sent {
  readonly answer: GraphQLAnswer;
  /** The HTTP status, 0 without an answer. */
  readonly status: number;
  readonly milliseconds: number;
}

/** send asks the server over HTTP. What is no answer of GraphQL becomes one that says in words what happened. */
export async function send(body: object, headers: Record<string, string>): Promise<Sent> {
  const start = performance.now();
  const told = (status: number, message: string) => ({ answer: { errors: [{ message }] }, status, milliseconds: performance.now() - start });
  let response: Response, text: string;
  try {
    response = await fetch(page.endpoint, {
      method: 'POST',
      headers: { accept: 'application/json', 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
    text = await response.text();
  } catch (error) {
    await look();
    if (trouble.get()) return told(0, `The server at ${location.host} does not answer. Run this again when it is back.`);
    return told(0, `The request failed: ${(error as Error).message}`);
  }
  try {
    return { answer: JSON.parse(text) as GraphQLAnswer, status: response.status, milliseconds: performance.now() - start };
  } catch {
    void look();
    return told(response.status, `The server answered ${response.status} and no JSON: ${text.slice(0, 200) || 'nothing at all'}`);
  }
}
