/** The files of the page: which have not arrived, and another attempt to get them. */

const missingStyles = () => [...document.querySelectorAll<HTMLLinkElement>('link[rel=stylesheet]')].filter(({ sheet }) => {
  try {
    return !sheet?.cssRules.length;
  } catch {
    return true; // what is no style sheet cannot be read
  }
});
// A file that lacks another one leaves an empty object behind.
const works = (name: string) => Object.keys((window as unknown as Record<string, object | undefined>)[name] ?? {}).length > 0;
const missingScripts = () => [...document.querySelectorAll<HTMLScriptElement>('script[data-global]')].filter(({ dataset }) => !works(dataset.global!));
const nameOf = (address: string) => new URL(address).pathname.replace(/^.*\//, '');

/** missing names the files that have not arrived: those that GraphiQL cannot start without, and its styles. */
export function missing(): { scripts: string[]; styles: string[] } {
  return { scripts: missingScripts().map(({ src }) => nameOf(src)), styles: missingStyles().map(({ href }) => nameOf(href)) };
}

/** fetchAgain asks for the missing files once more, in their order. */
export async function fetchAgain(): Promise<void> {
  for (const old of [...missingStyles(), ...missingScripts()]) {
    const again = document.createElement(old.localName) as HTMLLinkElement | HTMLScriptElement;
    for (const { name, value } of old.attributes) {
      // The browser keeps an answer for an address, even one that says that nothing is there.
      if (name === 'src' || name === 'href') again.setAttribute(name, `${value.replace(/\?.*/, '')}?again=${Date.now()}`);
      else if (name !== 'defer') again.setAttribute(name, value);
    }
    await new Promise<void>((done) => {
      again.onload = again.onerror = () => done();
      old.replaceWith(again);
    });
  }
}
