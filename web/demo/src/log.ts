import { Cell } from './store.ts';
import type { Side } from './view.ts';

/** An operation that the page sent or received: what the drawer shows. */
export interface Operation {
  readonly number: number;
  readonly by: Side | 'host';
  readonly push: boolean;
  readonly query: string;
  readonly variables: object;
  readonly token: string;
  readonly data?: unknown;
}

/** The last operation. */
export const last = new Cell<Operation | undefined>(undefined);

let count = 0;
let acts = 0;
let clickedAt = -Infinity;

/** sentOperations is how many operations the visitor has sent: whether they did something in between. */
export const sentOperations = (): number => acts;

/** How long a push leaves the drawer to the click before it, in milliseconds: the visitor wants to read what they did. */
const leaveToClick = 6000;

/** note remembers an operation; the function that it answers adds the answer. */
export function note(operation: Omit<Operation, 'number'>): (data: unknown) => void {
  const number = ++count;
  const now = performance.now();
  if (operation.push && now - clickedAt < leaveToClick) return () => undefined;
  if (!operation.push) {
    clickedAt = now;
    acts++;
  }
  last.set({ ...operation, number });
  return (data) => {
    const shown = last.get();
    if (shown?.number === number) last.set({ ...shown, data });
  };
}

/** tidy lays a document out for people: the client's are in one line, with the fragment of the badges at their end. */
export function tidy(query: string): string {
  let depth = 0;
  let line = '';
  const lines: string[] = [];
  const end = () => {
    if (line.trim()) lines.push('  '.repeat(Math.max(depth, 0)) + line.trim());
    line = '';
  };
  const tokens = query.match(/"(?:\\.|[^"\\])*"|\.\.\.\s*(?:on\s+)?\w+|\$?\w+|[{}()[\]:!=,@|&]/g) ?? [];
  let inside = 0; // of parentheses
  let header = true; // before the first brace of a definition
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!;
    if (token === '{' && inside === 0) {
      line = `${line.trimEnd()} {`;
      end();
      depth++;
      header = false;
    } else if (token === '}' && inside === 0) {
      end();
      depth--;
      line = '}';
      end();
      if (depth === 0) {
        header = true;
        if (i + 1 < tokens.length) lines.push('');
      }
    } else if (token === '(' || token === '[') {
      inside++;
      line = line.trimEnd() + token;
      if (token === '[' && tokens[i - 1] === ':') line = `${line.slice(0, -1)} [`;
    } else if (token === ')' || token === ']') {
      inside--;
      line = `${line.trimEnd()}${token} `;
    } else if (token === ':' || token === ',') line = `${line.trimEnd()}${token} `;
    else if (token === '!') line = `${line.trimEnd()}! `;
    else if (inside > 0 || header || line.trim().endsWith(':') || token === '=') line += `${inside > 0 && tokens[i - 1] !== '(' && token.startsWith('$') && !line.trimEnd().endsWith(',') && !line.trimEnd().endsWith(':') ? ', ' : ''}${token} `;
    else {
      end();
      line = `${token} `;
    }
  }
  end();
  return lines.join('\n').replace(/ ,/g, ',').replace(/\( /g, '(').replace(/ \)/g, ')').replace(/\{ ?$/gm, '{');
}

/** nameOf is the name of the operation of a document. */
export function nameOf(query: string): string {
  return /^\s*(?:query|mutation|subscription)\s+(\w+)/.exec(query)?.[1] ?? 'Operation';
}

/** fieldOf is the first field of a document, which says what it does. */
export function fieldOf(query: string): string {
  return /\{\s*(\w+)/.exec(query)?.[1] ?? '';
}
