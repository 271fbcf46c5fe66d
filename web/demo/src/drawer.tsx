import { useState } from 'preact/hooks';
import { curl, graphiql, react } from './forms.ts';
import { fieldOf, last, tidy } from './log.ts';
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
  const text = { GraphQL: tidy(operation.query), curl: curl(operation, page), React: react(operation) }[form];
  const variables = JSON.stringify(operation.variables, null, 2);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      return; // the browser does not permit it
    }
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
        <a class="plain" id="open-in-graphiql" href={graphiql(operation, page)} target="_blank" rel="noreferrer">{words.openGraphiql}</a>
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
