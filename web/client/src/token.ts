/** Where tokens come from: renew is true when the last one was refused or is about to expire. */
export type TokenSource = (renew: boolean) => string | Promise<string>;

/** The token in hand. */
export interface Tokens {
  /** get answers the token in hand, or asks the source for one. Whoever asks meanwhile gets the same answer. */
  get(renew?: boolean): Promise<string>;
  /** drop forgets the token: the server has refused it. */
  drop(): void;
}

/** createTokens keeps the token of a source until it is refused, or renewed. A failure of the source is not kept. */
export function createTokens(source: TokenSource): Tokens {
  let token: Promise<string> | undefined;
  let refused = false;
  return {
    get(renew = false) {
      if (token && !renew) return token;
      const asked: Promise<string> = Promise.resolve(refused || renew).then(source);
      refused = false;
      asked.catch(() => {
        if (token === asked) token = undefined;
      });
      return (token = asked);
    },
    drop() {
      token = undefined;
      refused = true;
    },
  };
}

/** expiryOf reads when a JSON Web Token expires, in milliseconds since 1970; undefined when it does not say so. */
export function expiryOf(token: string): number | undefined {
  try {
    const claims = JSON.parse(atob(token.split('.')[1]!.replace(/-/g, '+').replace(/_/g, '/')));
    return typeof claims.exp === 'number' ? claims.exp * 1000 : undefined;
  } catch {
    return undefined; // it is another kind of token
  }
}
