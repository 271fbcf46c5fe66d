// Proves that the components which the drawer offers compile with the types of @tidings/client: for a push, for what the hooks do,
// and for any other operation of the page or of the application.
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, 'node_modules', '.forms');
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({ entryPoints: [join(here, 'src', 'forms.ts')], outfile: join(out, 'forms.mjs'), bundle: true, format: 'esm', alias: { preact: join(here, 'node_modules', 'preact') } });
const { react } = await import(join(out, 'forms.mjs'));

const operations = {
  push: { by: 'left', push: true, query: 'subscription WatchBadges($since: Version) { badgesChanged(since: $since) { id } }', variables: {} },
  feed: { by: 'left', push: false, query: 'mutation Mark($input: MarkHomeFeedSeenInput!) { markHomeFeedSeen(input: $input) { badges { id } } }', variables: { input: {} } },
  board: { by: 'left', push: false, query: 'mutation Mark($input: MarkLiveBoardSeenInput!) { markLiveBoardSeen(input: $input) { badges { id } } }', variables: { input: {} } },
  bell: { by: 'left', push: false, query: 'mutation Mark($input: MarkNotificationsSeenInput!) { markNotificationsSeen(input: $input) { badges { id } } }', variables: { input: {} } },
  like: { by: 'right', push: false, query: 'mutation Like($input: LikePostInput!) { likePost(input: $input) { changed } }', variables: { input: { postId: 'post:1' } } },
  clear: { by: 'right', push: false, query: 'mutation { markNotificationsRead(input: {ids: ["notification:1"]}) { badges { version } } }', variables: {} },
  host: { by: 'host', push: false, query: 'mutation Ingest($events: [IngestEvent!]!) { ingest(events: $events) { results { id } } }', variables: { events: [{ as: 'user:ben', do: { publishPost: { body: "It's `here` ${now}" } } }] } },
};
for (const [name, operation] of Object.entries(operations)) writeFileSync(join(out, `${name}.tsx`), react({ number: 1, token: '', ...operation }));
writeFileSync(join(out, 'tsconfig.json'), JSON.stringify({ extends: '../../tsconfig.json', include: ['*.tsx'] }));
execFileSync(join(here, 'node_modules', '.bin', 'tsc'), ['-p', out], { stdio: 'inherit' });
