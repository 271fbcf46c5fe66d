/** What the files of GraphiQL and of React put into the window, as far as this page uses it. */

type Props = Record<string, unknown> | null;
type Element = object;
type Component = ((props: never) => Element | null) | string | object;

interface CodeMirrorEditor {
  getValue(): string;
  setValue(value: string): void;
  focus(): void;
  getInputField(): HTMLElement;
  getScrollerElement(): HTMLElement;
  setOption(name: string, value: unknown): void;
  getOption(name: string): unknown;
}

/** What GraphiQL's components know of its tabs and editors. */
export interface EditorContext {
  readonly tabs: readonly { readonly id: string; readonly title: string; readonly query: string | null }[];
  readonly activeTabIndex: number;
  readonly queryEditor: CodeMirrorEditor | null;
  readonly variableEditor: CodeMirrorEditor | null;
  readonly headerEditor: CodeMirrorEditor | null;
  readonly responseEditor: CodeMirrorEditor | null;
  addTab(): void;
  changeTab(index: number): void;
  updateActiveTabValues(values: { query?: string; variables?: string; operationName?: string }): void;
}

export interface SchemaStore {
  readonly schema: object | null | undefined;
  readonly fetchError: string | null;
  readonly isFetching: boolean;
  introspect(): void;
}

interface ReactLibrary {
  createElement(type: Component, props: Props, ...children: unknown[]): Element;
  useEffect(effect: () => (() => void) | void, inputs?: readonly unknown[]): void;
  useLayoutEffect(effect: () => (() => void) | void, inputs?: readonly unknown[]): void;
  useReducer(reducer: (state: number) => number, first: number): [number, () => void];
}

interface GraphiQLLibrary {
  GraphQL: { parse(query: string): { readonly definitions: readonly { readonly kind: string; readonly operation?: string; readonly name?: { readonly value: string } }[] } };
  Logo: Component;
  Toolbar: Component;
  Footer: Component;
  React: {
    useEditorContext(options: { nonNull: true }): EditorContext;
    useExecutionContext(options: { nonNull: true }): { stop(): void };
    useSchemaStore(): SchemaStore;
    ToolbarButton: Component;
  };
}

export interface Libraries {
  React: ReactLibrary;
  ReactDOM: { createRoot(root: Node): { render(element: Element): void; unmount(): void } };
  GraphiQL: GraphiQLLibrary;
}

/** libraries are the globals, once their files have arrived. */
export const libraries = window as unknown as Libraries;
