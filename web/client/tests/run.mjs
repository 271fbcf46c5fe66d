// Runs the tests: builds the package and the server, writes what the clients' compilers make of the schema, compiles the tests
// with tsc --strict, and runs them. Arguments are passed on to node --test; names of files in place of all tests can follow.
import { execFile, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const here = import.meta.dirname;
const root = join(here, '..');
const out = join(here, 'out');
const bin = join(root, 'node_modules', '.bin');

async function run(command, args, cwd = root) {
  try {
    return await promisify(execFile)(command, args, { cwd, maxBuffer: 1 << 24, env: { ...process.env, NO_COLOR: '1' } });
  } catch (error) {
    throw new Error(`${command} ${args.join(' ')} failed:\n${error.stdout ?? ''}${error.stderr ?? error}`);
  }
}

// The samples of the README and of the books, a file each, so that they are compiled with the tests.
function samples() {
  const docs = join(root, '..', '..', 'docs');
  const pages = { sample: join(root, 'README.md') };
  for (const name of readdirSync(docs)) if (name.endsWith('.md')) pages[name.slice(0, -3)] = join(docs, name);
  for (const [name, page] of Object.entries(pages)) {
    const blocks = [...readFileSync(page, 'utf8').matchAll(/^```(tsx?)\n(.*?)^```$/gms)];
    if (blocks.length === 0 && name === 'sample') throw new Error('README.md has no samples');
    blocks.forEach(([, language, code], i) => writeFileSync(join(here, 'generated', `${name}-${i + 1}.${language}`), `${code}\nexport {};\n`));
  }
}

// The operations of the scenarios and the fragment: for Relay's compiler in one module, which their names begin with, and for
// GraphQL Code Generator in a file, without Relay's directives.
function operations() {
  const source = readFileSync(join(here, 'documents.ts'), 'utf8');
  const constants = Object.fromEntries([...source.matchAll(/^const (\w+) = '(.*)';$/gm)].map(([, name, text]) => [name, text]));
  const texts = [...source.matchAll(/^  Tidings\w+: `(.*?)`,$/gms)].map(([, text]) => text.replace(/\$\{(\w+)\}/g, (_, name) => constants[name]));
  const fragments = readFileSync(join(root, 'badges.graphql'), 'utf8').replaceAll('...TidingsCount', '...TidingsCount @relay(mask: false)').split(/^(?=fragment)/m);
  const tags = [...texts, ...fragments].map((text) => `graphql\`${text}\`;`);
  writeFileSync(join(here, 'generated', 'Tidings.ts'), `import { graphql } from 'relay-runtime';\n\n${tags.join('\n')}\n`);
  writeFileSync(join(here, 'generated', 'operations.graphql'), texts.map((text) => text.replace(/ @(connection|relay)\([^)]*\)/g, '')).join('\n\n'));
}

rmSync(join(here, 'generated'), { recursive: true, force: true });
rmSync(out, { recursive: true, force: true });
for (const folder of [out, join(here, 'generated', 'relay'), join(here, 'generated', 'trusted')]) mkdirSync(folder, { recursive: true });
await Promise.all([run('go', ['build', '-o', join(out, 'tidings'), '.'], join(root, '..', '..')), run(process.execPath, ['build.mjs'])]);
samples();
operations();
writeFileSync(join(here, 'generated', 'trusted.json'), '{}');
async function relay() {
  for (const config of ['relay.config.json', 'relay.trusted.json']) await run(join(bin, 'relay-compiler'), [config], here);
}
await Promise.all([relay(), run(join(bin, 'graphql-codegen-esm'), ['--config', 'codegen.json'], here)]);
await run(join(bin, 'tsc'), ['-p', here]);

const chosen = process.argv.slice(2).filter((name) => !name.startsWith('-'));
const files = readdirSync(out).filter((name) => name.endsWith('.test.js') && (chosen.length === 0 || chosen.includes(name.replace('.test.js', ''))));
const flags = process.argv.slice(2).filter((name) => name.startsWith('-'));
const { status } = spawnSync(process.execPath, ['--test', '--test-concurrency=3', '--test-timeout=120000', ...flags, ...files.map((name) => join(out, name))], { stdio: 'inherit', cwd: root });
process.exit(status ?? 1);
