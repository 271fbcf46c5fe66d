/** The source of tokens: renew is true if the last token was refused or is about to expire. */
export type TokenSource = (renew: boolean) => string | Promise<string>;

/** The present token. */
export interface Tokens {
  /** get answers the token in hand, or asks the source for one: once, however many ask meanwhile. */
  get(): Promise<string>;
  /** drop forgets a token that was refused or is about to expire. It changes nothing when another one is in hand already. */
  drop(token: string): void;
}

/** createTokens keeps the token of a source until it is dropped. A failure of the source is not kept. */
export function createTokens(source: TokenSource): Tokens {
  let asked: Promise<string> | undefined;
  let held: string | undefined;
  let renew = false;
  return {
    get() {
      if (asked) return asked;
      asked = Promise.resolve(renew).then(source);
      asked.then(
        (token) => {
          held = token;
          renew = false;
        },
        () => (asked = undefined),
      );
      return asked;
    },
    drop(token) {
      if (token !== held) return; // it was replaced, or is about to be
      asked = held = undefined;
      renew = true;
    },
  };
}

/** expiryOf reads when a JSON Web Token expires, in milliseconds since 1970; undefined if it has no expiry. */
export function expiryOf(token: string): number | undefined {
  try {
    const claims = JSON.parse(atob(token.split('.')[1]!.replace(/-/g, '+').replace(/_/g, '/')));
    return typeof claims.exp === 'number' ? claims.exp * 1000 : undefined;
  } catch {
    return undefined; // it is another kind of token
  }
}
