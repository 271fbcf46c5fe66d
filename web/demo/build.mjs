// Builds both pages, with the client package of ../client inside: src/main.tsx and src/style.css become ../assets/demo.js and
// ../assets/demo.css, and ../graphiql becomes ../assets/graphiql-page.js and graphiql-page.css, which start GraphiQL. React's
// hooks of that package run on Preact. The same package-lock.json gives the same files, byte for byte.
// npm ci must have run in .. too, whose graphql the client's generator uses.
import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import '../client/schema.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const module = (name) => join(here, 'node_modules', name);
const client = (name) => join(here, '..', 'client', 'src', name);

execFileSync(module('.bin/tsc'), ['-p', here], { stdio: 'inherit' });
await build({
  entryPoints: { demo: join(here, 'src', 'main.tsx'), 'graphiql-page': join(here, '..', 'graphiql', 'main.tsx') },
  outdir: join(here, '..', 'assets'),
  bundle: true,
  minify: true,
  format: 'iife',
  target: 'es2022',
  charset: 'utf8',
  legalComments: 'none', // LICENSES.txt has the licences
  jsx: 'automatic',
  jsxImportSource: 'preact',
  // Whatever is installed beside ../client: these are the versions of package-lock.json.
  alias: {
    '@tidings/client': client('index.ts'),
    '@tidings/client/react': client('react.ts'),
    'graphql-ws': module('graphql-ws'),
    preact: module('preact'),
    react: module('preact/compat'),
  },
});
