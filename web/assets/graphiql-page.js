// Starts GraphiQL on the page of graphiql.html.
//
// Guarantees: a request and a socket carry the identity that the bar shows, unless the Headers editor names another
// Authorization; a change of identity closes the sockets of the old one; a browser tab has its own identity and its
// own editors; no token is ever written to storage that outlives the tab.
// On failure: the page names the file that cannot be loaded.
(() => {
  'use strict';

  const { endpoint, operations, version } = document.body.dataset;
  const { createElement } = React;

  // The streams of subscriptions that are open, to be ended when the identity changes.
  const openStreams = new Set();

  // ---- Identity: the chosen user in development mode; null where there is no bar. ----

  const PERSON = /^[A-Za-z0-9._-]{1,64}(:(admin|ingest)(,(admin|ingest))?)?$/;
  const PERSON_KEY = 'tidings:person';
  const bar = document.getElementById('identity');
  let person = bar && firstPerson();

  // A parameter of the address, which is then removed from it, so that a reload keeps what was chosen later.
  function takeParameter(name) {
    const url = new URL(location.href);
    const value = url.searchParams.get(name);
    if (value !== null) {
      url.searchParams.delete(name);
      history.replaceState(null, '', url);
    }
    return value;
  }

  // The user of the address (?as=bob), else the user before a reload, else alice.
  function firstPerson() {
    const asked = takeParameter('as');
    return [asked, sessionStorage.getItem(PERSON_KEY)].find((one) => PERSON.test(one ?? '')) ?? 'alice';
  }

  function bePerson(next) {
    if (next !== person) {
      for (const stream of [...openStreams]) stream.return();
    }
    person = next;
    sessionStorage.setItem(PERSON_KEY, next);
    showPerson();
  }

  function showPerson() {
    const [key, scopes] = person.split(':');
    document.getElementById('who').value = scopes ? `${key} (${scopes.replace(',', ', ')})` : key;
    for (const button of bar.querySelectorAll('[data-person]')) {
      button.setAttribute('aria-pressed', String(button.dataset.person === person));
    }
  }

  function startBar() {
    if (!bar) return;
    bar.addEventListener('click', ({ target }) => {
      if (target.dataset.person) bePerson(target.dataset.person);
    });
    document.getElementById('other').addEventListener('submit', (event) => {
      event.preventDefault();
      bePerson(event.target.elements.person.value);
      event.target.reset();
    });
    bePerson(person);
  }

  // ---- Requests ----

  // The headers of a request, by lower-case name: the Headers editor wins over the bar.
  function requestHeaders(edited) {
    const headers = person ? { authorization: `Bearer dev:${person}` } : {};
    for (const [name, value] of Object.entries(edited ?? {})) headers[name.toLowerCase()] = String(value);
    return headers;
  }

  // A browser's socket cannot send headers, so those that the server reads go into the connection_init message.
  function connectionParams(headers) {
    const params = {};
    if (headers.authorization) params.authorization = headers.authorization;
    if (headers['tidings-device']) params.device = headers['tidings-device'];
    return params;
  }

  function isSubscription(documentAST, operationName) {
    const found = (documentAST?.definitions ?? []).filter((definition) => definition.kind === 'OperationDefinition'
      && (!operationName || definition.name?.value === operationName));
    return found.some((definition) => definition.operation === 'subscription');
  }

  function socketURL() {
    const url = new URL(endpoint, location.href);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    return url.href;
  }

  // Each call has a fetcher of its own, since GraphiQL's keeps the connection parameters that it was made with.
  async function fetcher(params, options = {}) {
    const { documentAST } = options;
    const headers = requestHeaders(options.headers);
    if (!isSubscription(documentAST, params.operationName)) {
      return GraphiQL.createFetcher({ url: endpoint, enableIncrementalDelivery: false })(params, { documentAST, headers });
    }
    const subscribe = GraphiQL.createFetcher({
      url: endpoint,
      subscriptionUrl: socketURL(),
      wsConnectionParams: connectionParams(headers),
    });
    return tracked(await subscribe(params, { documentAST }));
  }

  // The same stream, known in openStreams for as long as it is open.
  function tracked(stream) {
    const iterator = stream[Symbol.asyncIterator]();
    const closing = async (step) => {
      const result = await step.catch((error) => {
        openStreams.delete(iterator);
        throw error;
      });
      if (result.done) openStreams.delete(iterator);
      return result;
    };
    openStreams.add(iterator);
    return {
      [Symbol.asyncIterator]() { return this; },
      next: () => closing(iterator.next()),
      return: () => closing(iterator.return()),
      throw: (error) => closing(iterator.throw(error)),
    };
  }

  // ---- Storage ----

  // The content of the editors belongs to the browser tab, so that two tabs can be two users. The rest (theme, history,
  // sizes) is shared.
  const OF_THE_TAB = new Set(['query', 'variables', 'headers', 'operationName', 'tabState'].map((name) => `graphiql:${name}`));
  const HISTORY = new Set(['graphiql:queries', 'graphiql:favorites']);

  function storeOf(key) {
    return OF_THE_TAB.has(key) ? sessionStorage : localStorage;
  }

  // GraphiQL writes the Headers editor into its history even if it must not persist headers. A token must not stay there.
  function withoutHeaders(history) {
    return JSON.stringify(JSON.parse(history), (name, value) => (name === 'headers' ? undefined : value));
  }

  const ours = (store) => Object.keys(store).filter((key) => key.startsWith('graphiql:'));

  const storage = {
    getItem: (key) => storeOf(key).getItem(key),
    setItem: (key, value) => storeOf(key).setItem(key, HISTORY.has(key) ? withoutHeaders(value) : value),
    removeItem: (key) => storeOf(key).removeItem(key),
    get length() { return ours(sessionStorage).length + ours(localStorage).length; },
    clear: () => [sessionStorage, localStorage].forEach((store) => ours(store).forEach((key) => store.removeItem(key))),
  };

  // ---- The page ----

  // A fixed date in an example would be in the past one day.
  function dated(operation) {
    const inAMonth = new Date();
    inAMonth.setUTCDate(inAMonth.getUTCDate() + 30);
    inAMonth.setUTCHours(20, 0, 0, 0);
    return { ...operation, variables: operation.variables?.replace('"IN A MONTH"', JSON.stringify(inAMonth)) };
  }

  async function readyMade() {
    const response = await fetch(operations);
    if (!response.ok) throw new Error(`the ready-made operations answered ${response.status}`);
    return (await response.json()).map(dated);
  }

  // The operation of the address (?query=...&variables=...), as a page that links to one writes it; null without one.
  function linked() {
    const query = takeParameter('query');
    const variables = takeParameter('variables');
    return query && { query, variables: variables ?? undefined };
  }

  async function start() {
    startBar();
    const link = linked();
    const ready = await readyMade();
    const logo = createElement(GraphiQL.Logo, null, createElement('span', { className: 'tidings-logo' },
      'Tidings ', createElement('small', null, version)));
    ReactDOM.createRoot(document.getElementById('graphiql')).render(createElement(GraphiQL, {
      defaultEditorToolsVisibility: true,
      defaultTabs: link ? [link, ...ready] : ready,
      ...link, // a tab that has tabs already gets one more
      fetcher,
      shouldPersistHeaders: false,
      storage,
    }, logo));
  }

  start().catch((error) => {
    document.querySelector('.loading').textContent = `GraphiQL cannot start: ${error.message}`;
  });
})();
