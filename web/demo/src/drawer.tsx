import { useState } from 'preact/hooks';
import { fieldOf, last, nameOf, tidy, type Operation } from './log.ts';
import { page } from './page.ts';
import { useCell } from './store.ts';
import { useWords } from './words.ts';

type Form = 'GraphQL' | 'curl' | 'React';
const forms: readonly Form[] = ['GraphQL', 'curl', 'React'];

/** Drawer shows the operation of the last click or push, and how to send it from elsewhere. */
export function Drawer() {
  const words = useWords();
  const operation = useCell(last);
  const [form, setForm] = useState<Form>('GraphQL');
  const [copied, setCopied] = useState(false);
  if (!operation) {
    return (
      <aside class="drawer" aria-label={words.what}>
        <h2>{words.what}</h2>
        <p class="muted">{words.whatNone}</p>
      </aside>
    );
  }
  const who = { host: words.byHost, left: words.byLeft, right: words.byRight }[operation.by];
  const text = { GraphQL: tidy(operation.query), curl: curl(operation), React: react(operation) }[form];
  const variables = JSON.stringify(operation.variables, null, 2);
  const copy = async () => {
    await navigator.clipboard?.writeText(text).catch(() => undefined);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <aside class="drawer" aria-label={words.what}>
      <header>
        <h2>{words.what}</h2>
        <p class="muted">
          {operation.push ? words.pushed(who) : words.sent(who)}: <code>{fieldOf(operation.query)}</code>
        </p>
      </header>
      <div class="forms" role="group" aria-label={words.what}>
        {forms.map((name) => (
          <button key={name} type="button" class="plain" aria-pressed={form === name} onClick={() => setForm(name)}>{name}</button>
        ))}
        <span class="grow" />
        <button type="button" class="plain" onClick={() => void copy()}>{copied ? words.copied : words.copy}</button>
        <a class="plain" id="open-in-graphiql" href={graphiql(operation)} target="_blank" rel="noreferrer">{words.openGraphiql}</a>
      </div>
      <div class="code" tabIndex={0} role="region" aria-label={form}>
        <pre data-form={form}><code>{form === 'GraphQL' ? <Highlighted text={text} /> : text}</code></pre>
        {form === 'GraphQL' && variables !== '{}' && <><h3>{words.variables}</h3><pre><code>{short(variables)}</code></pre></>}
        {form === 'GraphQL' && operation.data !== undefined && <><h3>{operation.push ? words.event : words.answer}</h3><pre><code>{short(JSON.stringify(operation.data, null, 2))}</code></pre></>}
        {form !== 'GraphQL' && page.mode === 'production' && <p class="muted">{words.tokenNote}</p>}
      </div>
    </aside>
  );
}

const longest = 2400;
const short = (text: string) => (text.length > longest ? `${text.slice(0, longest)}\n...` : text);

/** graphiql is the address of GraphiQL with the operation and its person. */
export function graphiql({ query, variables, token }: Operation): string {
  const address = new URLSearchParams({ query: tidy(query), variables: JSON.stringify(variables, null, 2) });
  if (page.mode !== 'production') address.set('as', token.replace(/^dev:/, ''));
  return `/graphiql?${address}`;
}

const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** curl is a command that sends the operation. A subscription comes as an event stream. */
export function curl({ query, variables, token }: Operation): string {
  const subscription = query.startsWith('subscription');
  const authorization = page.mode === 'production' ? `"Authorization: Bearer $TOKEN"` : quote(`Authorization: Bearer ${token}`);
  return [
    `curl ${subscription ? '-N ' : ''}${page.endpoint}`,
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

/** Highlighted is a document with its words in colours. */
function Highlighted({ text }: { text: string }) {
  return (
    <>
      {text.split(/(\b(?:query|mutation|subscription|fragment|on)\b|\$\w+|"[^"]*"|\.\.\.\w*)/).map((piece, i) => {
        const kind = /^\$/.test(piece) ? 'v' : /^"/.test(piece) ? 's' : /^\.\.\./.test(piece) ? 'f' : i % 2 === 1 ? 'k' : '';
        return kind ? <span key={i} class={kind}>{piece}</span> : piece;
      })}
    </>
  );
}
