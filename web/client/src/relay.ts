import type { Client } from 'graphql-ws';
import { Observable, type FetchFunction, type GraphQLResponse, type RequestParameters, type Variables } from 'relay-runtime';
import { createGuard, type Guard } from './version.js';

/** The function that Network.create takes for subscriptions. */
export type RelaySubscribe = (request: RequestParameters, variables: Variables) => Observable<GraphQLResponse>;

/** The functions that Network.create takes. */
export interface RelayNetwork {
  fetch: FetchFunction;
  subscribe: RelaySubscribe;
}

/** guardNetwork keeps late badges out of the store: pass it the functions for Network.create. */
export function guardNetwork(network: RelayNetwork, guard: Guard = createGuard()): RelayNetwork {
  const guarded = (response: GraphQLResponse) =>
    (Array.isArray(response) ? response.map((part) => guardData(part, guard)) : guardData(response as { data?: unknown }, guard)) as GraphQLResponse;
  return {
    fetch: (...args) => Observable.from(network.fetch(...args)).map(guarded),
    subscribe: (...args) => network.subscribe(...args).map(guarded),
  };
}

function guardData<Response extends { data?: unknown }>(response: Response, guard: Guard): Response {
  const data = guard(response.data);
  return data === response.data ? response : { ...response, data };
}

/**
 * payloadOf is what to send for a request: its text, or the id of its trusted document when Relay's compiler has persisted it,
 * with "algorithm": "SHA256" in its persistConfig.
 */
export function payloadOf({ text, id }: RequestParameters, variables: Variables): { query?: string; documentId?: string; variables: Variables } {
  return text ? { query: text, variables } : { documentId: `sha256:${id}`, variables };
}

/** subscribeWith makes Relay's subscribe function of a client of graphql-ws, such as createSocket makes. */
export function subscribeWith(socket: Client): RelaySubscribe {
  return (request, variables) =>
    Observable.create<GraphQLResponse>((sink) =>
      socket.subscribe(
        { query: '', ...payloadOf(request, variables) }, // graphql-ws sends nothing without a text
        {
          next: (response) => sink.next(response as GraphQLResponse),
          error: (reason) => sink.error(reason instanceof Error ? reason : Object.assign(new Error('The subscription has failed'), { reason })),
          complete: () => sink.complete(),
        },
      ),
    );
}
