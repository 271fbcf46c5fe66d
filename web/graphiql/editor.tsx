import { Cell } from '../demo/src/store.ts';
import { claimsOf, currentToken, person, token } from './identity.ts';
import { libraries, type EditorContext, type SchemaStore } from './globals.ts';
import { menuKey } from './menu.tsx';
import { say, unsay } from './notices.tsx';
import { filled, nameOf, operations, remember, tabsAtFirst, type Ready } from './operations.ts';
import { page } from './page.ts';
import { look, send, trouble, whenBack, type GraphQLAnswer } from './server.ts';
import { graphiqlStorage } from './storage.ts';
import { begin } from './watch.ts';

/** An operation to open, as an address names it. */
export type Link = Pick<Ready, 'query' | 'variables'>;

interface Definition {
  readonly kind: string;
  readonly operation?: string;
  readonly name?: { readonly value: string };
}

interface Params {
  query: string;
  operationName?: string;
  variables?: Record<string, unknown>;
}

interface Options {
  headers?: Record<string, unknown>;
}

// GraphiQL's own state, since it was drawn last.
let editor: EditorContext | undefined;
let schema: SchemaStore | undefined;
let halt = () => {};

// What the next tab will hold, and how many tabs there are without it.
let opening: { readonly values: { query: string; variables: string; operationName?: string }; readonly tabs: number } | undefined;

// What was answered in a tab last, in words, by the tab's id.
const answered = new Cell<ReadonlyMap<string, string>>(new Map());

/** requestHeaders are the headers of a request by lower-case name: the Headers editor wins over the bar. */
function requestHeaders(edited: Record<string, unknown> = {}): Record<string, string> {
  const bare = currentToken();
  const headers: Record<string, string> = bare ? { authorization: `Bearer ${bare}` } : {};
  for (const [name, value] of Object.entries(edited)) headers[name.toLowerCase()] = String(value);
  return headers;
}

/** operationOf is the operation to run. GraphiQL knows what is in its editor only some time after a change, so the text counts. */
function operationOf({ query, operationName }: Params): Definition | undefined {
  try {
    const all = libraries.GraphiQL.GraphQL.parse(query).definitions.filter(({ kind }) => kind === 'OperationDefinition');
    return all.find(({ name }) => name?.value === operationName) ?? all[0];
  } catch {
    return undefined; // the server says where it is wrong
  }
}

/** fetcher runs what GraphiQL asks for. A subscription becomes a watch, which GraphiQL does not end. */
async function fetcher(params: Params, options: Options = {}): Promise<GraphQLAnswer | object> {
  const headers = requestHeaders(options.headers);
  if (params.operationName === 'IntrospectionQuery') return (await send(params, headers)).answer;
  const operation = operationOf(params);
  params = { ...params, operationName: operation?.name?.value, variables: fillIn(params.variables) };
  if (operation?.operation === 'subscription') return watch(params, headers, options.headers ?? {});
  const tab = activeTab();
  const { answer, status, milliseconds } = await send(params, headers);
  remember(answer.data);
  const who = claimsOf((headers.authorization ?? '').replace(/^bearer\s+/i, '')).who;
  const words = [`as ${who}`, status ? `${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms` : 'no answer', ...(status >= 300 ? [`status ${status}`] : []), new Date().toLocaleTimeString('en-GB')];
  if (tab) answered.set(new Map(answered.get()).set(tab, words.join(' · ')));
  tellToken(answer, headers);
  showResponse();
  return answer;
}

function watch(params: Params, headers: Record<string, string>, edited: Record<string, unknown>): object {
  const own = Object.keys(edited).some((name) => name.toLowerCase() === 'authorization');
  const started = begin({
    name: params.operationName ?? 'subscription',
    query: params.query,
    operationName: params.operationName,
    variables: params.variables,
    device: headers['tidings-device'],
    token: own || page.development ? headers.authorization!.replace(/^bearer\s+/i, '') : undefined,
  });
  showResponse();
  return { watching: started.subject.name, as: started.who, events: 'arrive in the pane of watches, and go on arriving while you use other tabs' };
}

/** fillIn puts what variables leave open into them, and shows it in their editor. */
function fillIn(variables: Record<string, unknown> | undefined): Record<string, unknown> | undefined {
  if (!variables) return variables;
  const text = editor?.variableEditor?.getValue() ?? '';
  const full = filled(text);
  if (full !== text) editor!.variableEditor!.setValue(full);
  return JSON.parse(filled(JSON.stringify(variables))) as Record<string, unknown>;
}

/** tellToken says what to do when the server wants a token, or another one. */
function tellToken({ errors }: GraphQLAnswer, headers: Record<string, string>): void {
  const refused = errors?.find(({ extensions }) => extensions?.code === 'UNAUTHENTICATED');
  if (!refused || page.development || !token.get() || headers.authorization !== `Bearer ${token.get()}`) return unsay('refused');
  say({ id: 'refused', bad: true, text: <>The server refuses the token: {refused.message}. Forget it, and paste another one: <code>tidings token</code> signs one.</>, away: true });
}

/** On a narrow page the response is below the editors, and the watches are below it. */
function showResponse(): void {
  if (matchMedia('(max-width: 760px)').matches) document.querySelector('.graphiql-response')?.scrollIntoView({ block: 'start' });
}

const activeTab = () => editor?.tabs[editor.activeTabIndex]?.id;

/** openInTab brings an operation to the front: its tab, or else a new one. */
export function openInTab(one: Link): void {
  if (!editor) return;
  const there = editor.tabs.findIndex(({ query }, at) => (at === editor!.activeTabIndex ? editor!.queryEditor?.getValue() : query) === one.query);
  halt();
  if (there >= 0) {
    opening = undefined;
    editor.changeTab(there);
    editor.queryEditor?.focus();
    return;
  }
  const asked = opening !== undefined;
  opening = { values: { query: one.query, variables: filled(one.variables ?? ''), operationName: nameOf(one) }, tabs: editor.tabs.length };
  // GraphiQL's addTab writes its default query into the editor while React computes the tabs. A click's changes pass those that
  // wait, as that of an edit does some time after it; React then computes the tabs again, and the default query comes back. A
  // timer's changes pass nothing.
  if (!asked) setTimeout(() => editor?.addTab());
}

/** fillTab fills the tab that openInTab asked for, once it is there. */
function fillTab(): void {
  if (!opening || !editor || editor.tabs.length <= opening.tabs) return;
  const { values } = opening;
  opening = undefined;
  editor.queryEditor?.setValue(values.query);
  editor.variableEditor?.setValue(values.variables);
  editor.updateActiveTabValues(values);
  editor.queryEditor?.focus();
}

/** copyLink puts the address that opens this operation into the clipboard, and into the address bar. */
async function copyLink(): Promise<void> {
  const url = new URL(location.pathname, location.origin);
  url.searchParams.set('query', editor?.queryEditor?.getValue() ?? '');
  const variables = editor?.variableEditor?.getValue().trim();
  if (variables) url.searchParams.set('variables', variables);
  if (page.development) url.searchParams.set('as', person.get());
  history.replaceState(null, '', url);
  const copied = await navigator.clipboard?.writeText(url.href).then(() => true, () => false);
  say({ id: 'link', text: copied ? 'The link to this operation is copied.' : 'The address bar has the link to this operation.', away: true });
}

/** Bridge gives this page what GraphiQL's components know. It draws nothing. */
function Bridge(): null {
  const { React, GraphiQL } = libraries;
  editor = GraphiQL.React.useEditorContext({ nonNull: true });
  schema = GraphiQL.React.useSchemaStore();
  halt = GraphiQL.React.useExecutionContext({ nonNull: true }).stop;
  const { queryEditor, variableEditor, headerEditor, responseEditor } = editor;
  const { fetchError, isFetching } = schema;
  React.useEffect(() => {
    for (const [name, one] of Object.entries({ Query: queryEditor, Variables: variableEditor, Headers: headerEditor, Response: responseEditor })) {
      if (!one) continue;
      one.getInputField().setAttribute('aria-label', `${name} editor`);
      // What scrolls can be scrolled with the keys.
      const scroller = one.getScrollerElement();
      scroller.tabIndex = 0;
      scroller.role = 'group';
      scroller.ariaLabel = `${name}, to scroll`;
      // The Tab key leaves an editor: nobody must be held in it.
      one.setOption('extraKeys', { ...(one.getOption('extraKeys') as object), Tab: false, 'Shift-Tab': false });
    }
  }, [queryEditor, variableEditor, headerEditor, responseEditor]);
  React.useEffect(() => {
    if (!page.introspection || isFetching) return;
    if (!fetchError || trouble.get()) unsay('schema');
    else say({ id: 'schema', bad: true, text: `The schema cannot be read, so the editor completes nothing: ${fetchError.slice(0, 200)}`, action: { label: 'Read it again', run: () => schema?.introspect() } });
  }, [fetchError, isFetching]);
  React.useLayoutEffect(() => fillTab(), [editor.tabs, editor.activeTabIndex]);
  React.useEffect(() => tidyTabs(), [editor.tabs, editor.activeTabIndex]);
  return null;
}

/** Answered is the line below the response: who asked, and how long it took. */
function Answered(): object {
  const { React, GraphiQL } = libraries;
  const { tabs, activeTabIndex } = GraphiQL.React.useEditorContext({ nonNull: true });
  const [, again] = React.useReducer((turn) => turn + 1, 0);
  React.useEffect(() => answered.subscribe(again), []);
  return React.createElement('p', { className: 'answered', role: 'status' }, answered.get().get(tabs[activeTabIndex]?.id ?? '') ?? 'Ctrl-Enter runs the operation. The answer appears above.');
}

/** tidyTabs makes a list of buttons of GraphiQL's tabs, whose roles put buttons into tabs, where no screen reader finds them. */
function tidyTabs(): void {
  document.querySelector('.graphiql-tabs')?.removeAttribute('role');
  for (const item of document.querySelectorAll('.graphiql-tab')) {
    const button = item.querySelector('.graphiql-tab-button');
    item.removeAttribute('role');
    item.removeAttribute('aria-selected');
    button?.setAttribute('aria-current', String(item.classList.contains('graphiql-tab-active')));
    item.querySelector('.graphiql-tab-close')?.setAttribute('aria-label', `Close ${button?.textContent ?? 'the tab'}`);
  }
  const front = document.querySelector<HTMLElement>('.graphiql-tab-active');
  const strip = front?.parentElement;
  if (!front || !strip) return;
  if (front.offsetLeft < strip.scrollLeft + strip.offsetLeft || front.offsetLeft + front.offsetWidth > strip.scrollLeft + strip.offsetLeft + strip.clientWidth) {
    strip.scrollLeft = front.offsetLeft - strip.offsetLeft - 20;
  }
}

const emptyTab = `# Write an operation. Ctrl-Enter runs it; ${menuKey}
# lists the ready-made ones.

query {
  viewer {
    id
  }
}
`;

/** mount draws GraphiQL into an element, with a link's operation in front. */
export function mount(root: HTMLElement, link: Link | undefined): void {
  const { React, ReactDOM, GraphiQL } = libraries;
  const h = React.createElement;
  const first = operations.get().slice(0, tabsAtFirst).map(({ query, variables }) => ({ query, variables: variables && filled(variables) }));
  const tabs = [...(link ? [link] : []), ...first];
  ReactDOM.createRoot(root).render(h(GraphiQL, {
    defaultEditorToolsVisibility: true,
    defaultQuery: emptyTab,
    ...(tabs.length > 0 && { defaultTabs: tabs }),
    ...link, // tabs of before a reload get one more
    fetcher,
    ...(!page.introspection && { schema: null }),
    shouldPersistHeaders: false,
    storage: graphiqlStorage,
  },
  h(GraphiQL.Logo, null, ''),
  h(GraphiQL.Toolbar, null, ({ prettify, copy, merge }: Record<string, object>) => [prettify, merge, copy, h(GraphiQL.React.ToolbarButton, { label: 'Copy a link to this operation', onClick: () => void copyLink(), key: 'link' }, h(LinkIcon, null))]),
  h(GraphiQL.Footer, null, h(Answered, null)),
  h(Bridge, null)));
}

function LinkIcon(): object {
  const { createElement: h } = libraries.React;
  return h('svg', { className: 'graphiql-toolbar-icon', viewBox: '0 0 20 20', fill: 'none', stroke: 'currentColor', strokeWidth: 1.6, strokeLinecap: 'round', 'aria-hidden': true },
    h('path', { d: 'M8.5 11.5a3.5 3.5 0 0 0 5 0l2.7-2.7a3.5 3.5 0 0 0-5-5l-1 1' }),
    h('path', { d: 'M11.5 8.5a3.5 3.5 0 0 0-5 0l-2.7 2.7a3.5 3.5 0 0 0 5 5l1-1' }));
}

// Another server can have come back, with another schema.
whenBack(() => schema?.introspect());
void look();
