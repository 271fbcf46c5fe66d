/** The forms in which the drawer offers an operation: each can be used as it stands. */
import { fieldOf, nameOf, tidy, type Operation } from './log.ts';

interface Server {
  readonly endpoint: string;
  readonly mode: string;
}

/** graphiql is the address of GraphiQL with the operation and its person. */
export function graphiql({ query, variables, token }: Operation, { mode }: Server): string {
  const address = new URLSearchParams({ query: tidy(query), variables: JSON.stringify(variables, null, 2) });
  if (mode !== 'production') address.set('as', token.replace(/^dev:/, ''));
  return `/graphiql?${address}`;
}

const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** curl is a command that sends the operation. A subscription comes as an event stream. */
export function curl({ query, variables, token }: Operation, { endpoint, mode }: Server): string {
  const subscription = query.startsWith('subscription');
  const authorization = mode === 'production' ? `"Authorization: Bearer $TOKEN"` : quote(`Authorization: Bearer ${token}`);
  return [
    `curl ${subscription ? '-N ' : ''}${endpoint}`,
    `  -H ${authorization}`,
    `  -H 'Content-Type: application/json'`,
    ...(subscription ? [`  -H 'Accept: text/event-stream'`] : []),
    `  -d ${quote(JSON.stringify({ query, variables }))}`,
  ].join(' \\\n');
}

/** What a component takes of a hook to do what the field does. */
const hooks: Record<string, [hook: string, part: string]> = {
  markHomeFeedSeen: ['useHomeFeed', 'markSeen'],
  markLiveBoardSeen: ['useLiveBoard', 'markSeen'],
  markNotificationsSeen: ['useNotifications', 'markSeen'],
};

/** react is a component that does the same with @tidings/client. */
export function react(operation: Operation): string {
  const { query, variables, push, by } = operation;
  const field = fieldOf(query);
  if (push) {
    return `import { useBadges } from '@tidings/client/react';

// The badges are pushed: this component is drawn again
// whenever a number changes, on every device.
export function AppIcon() {
  const badges = useBadges();
  return <b>{badges?.total.display}</b>;
}
`;
  }
  const hook = hooks[field];
  if (hook) {
    return `import { ${hook[0]} } from '@tidings/client/react';

// The number falls at once, and on every device.
export function Seen() {
  const { ${hook[1]} } = ${hook[0]}();
  return <button onClick={() => void ${hook[1]}()}>Seen</button>;
}
`;
  }
  const indented = tidy(query).split('\n').map((text) => (text ? `  ${text}` : '')).join('\n');
  const name = nameOf(query);
  const value = JSON.stringify(variables, null, 2).replaceAll('\n', '\n    ');
  return `import { useTidings } from '@tidings/client/react';

const ${name.charAt(0).toLowerCase()}${name.slice(1)} = \`
${indented}
\`;
${by === 'host' ? '\n// The application does this with a token of the scope ingest: keep it on your server.' : ''}
export function ${name}() {
  const tidings = useTidings();
  const run = () =>
    tidings.request(${name.charAt(0).toLowerCase()}${name.slice(1)}, ${value});
  return <button onClick={() => void run()}>${name}</button>;
}
`;
}
