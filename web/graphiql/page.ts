/** What the server says about itself, in the attributes of the body. */
const { dataset } = document.body;

export const page = {
  endpoint: new URL(dataset.endpoint || '/graphql', location.href).href,
  operations: dataset.operations ?? '',
  version: dataset.version ?? '',
  /** Whether the server takes tokens for anybody. */
  development: dataset.mode === 'development',
  /** Whether the server answers questions about its schema. */
  introspection: dataset.introspection === 'true',
};

/** takeParameter reads a parameter of the address and removes it, so that a reload keeps what was chosen later. */
export function takeParameter(name: string): string | null {
  const url = new URL(location.href);
  const value = url.searchParams.get(name);
  if (value !== null) {
    url.searchParams.delete(name);
    history.replaceState(null, '', url);
  }
  return value;
}
