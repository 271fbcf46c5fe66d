// Copies GraphiQL and React from node_modules into assets/vendor, compressed, and writes assets/LICENSES.txt, also for what
// demo/build.mjs puts into the demo page. npm ci must have run in demo too.
//
// Guarantees: the same package-lock.json gives the same files, byte for byte, whatever the version of Node: a
// compressed file is written anew only when its content differs, since two versions of zlib may compress the same
// content differently. When a package has no known licence text the build fails and names it.
//
// graphql, graphql-ws and the two fonts are inside GraphiQL's bundle. They are listed in package.json so that GraphiQL
// can be installed, and so that their licences are at hand.
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { constants, gunzipSync, gzipSync } from 'node:zlib';

const here = dirname(fileURLToPath(import.meta.url));
const modules = join(here, 'node_modules');
const demoModules = join(here, 'demo', 'node_modules');
const vendor = join(here, 'assets', 'vendor');

// Served name -> file of a package.
const copied = {
  'graphiql.min.css': 'graphiql/graphiql.min.css',
  'graphiql.min.js': 'graphiql/graphiql.min.js',
  'react-dom.production.min.js': 'react-dom/umd/react-dom.production.min.js',
  'react.production.min.js': 'react/umd/react.production.min.js',
};

// Not in the source map: fonts are in the style sheet, React is beside the bundle.
const alsoShipped = ['@fontsource/fira-code', '@fontsource/roboto', 'react', 'react-dom', 'graphiql'];

// In the demo page, beside graphql-ws.
const inDemo = ['preact'];

// Packages that ship no licence text of their own, or that newer versions of their users no longer install: the
// package of the same repository that carries it.
const licenceOf = {
  '@graphiql/plugin-doc-explorer': 'graphiql',
  '@graphiql/plugin-history': 'graphiql',
  '@radix-ui/react-use-escape-keydown': '@radix-ui/react-dismissable-layer',
  '@react-aria/utils': '@react-aria/focus',
  'react-compiler-runtime': 'react',
  'react-remove-scroll-bar': 'react-remove-scroll',
};

// toggle-selection has no licence file anywhere: its package.json says MIT and names the author.
const licenceText = {
  'toggle-selection': (pkg) => mit(pkg.author),
};

function main() {
  mkdirSync(vendor, { recursive: true });
  for (const [name, source] of Object.entries(copied)) {
    writeCompressed(join(vendor, `${name}.gz`), withoutSourceMap(readFileSync(join(modules, source), 'utf8')));
  }
  for (const name of readdirSync(vendor)) {
    if (!(name.replace(/\.gz$/, '') in copied)) rmSync(join(vendor, name));
  }
  writeFileSync(join(here, 'assets', 'LICENSES.txt'), licences());
}

// The maps are not shipped; a comment that points at one would be a request that fails.
function withoutSourceMap(text) {
  return text.replace(/\n\/[/*]# sourceMappingURL=.*\n*$/, '\n');
}

function writeCompressed(path, text) {
  const content = Buffer.from(text);
  if (existsSync(path) && gunzipSync(readFileSync(path)).equals(content)) return;
  const compressed = gzipSync(content, { level: constants.Z_BEST_COMPRESSION });
  compressed[9] = 255; // operating system "unknown": the same header everywhere; name and time are never written
  writeFileSync(path, compressed);
}

// One section for each different text, headed by the packages that it covers.
function licences() {
  const sections = new Map();
  for (const name of bundledPackages()) {
    const text = licenceFor(name);
    sections.set(text, [...(sections.get(text) ?? []), name]);
  }
  const intro = 'Tidings serves GraphiQL and React from its own binary. They contain the packages below, each under\n'
    + 'the licence that follows its name. This file is written by build.mjs.\n';
  return intro + [...sections].map(([text, names]) => `\n${'='.repeat(100)}\n${names.join('\n')}\n${'-'.repeat(100)}\n\n${text}\n`).join('');
}

// The packages whose code is in the bundle, read from its source map; its own repository's parts have relative paths.
function bundledPackages() {
  const { sources } = JSON.parse(readFileSync(join(modules, 'graphiql/graphiql.min.js.map'), 'utf8'));
  const names = new Set([...alsoShipped, ...inDemo]);
  for (const source of sources) {
    const external = source.match(/.*node_modules\/((?:@[^/]+\/)?[^/]+)\//);
    const own = source.match(/^\.\.\/\.\.\/([^/.]+)\//);
    if (external) names.add(external[1]);
    else if (own) names.add(own[1].replace(/^graphiql-/, '@graphiql/'));
    else if (!source.startsWith('../src/')) throw new Error(`build.mjs does not know which package ${source} is of`);
  }
  return [...names].sort();
}

function licenceFor(name) {
  if (licenceText[name]) return licenceText[name](packageOf(name));
  const folder = join(inDemo.includes(name) ? demoModules : modules, licenceOf[name] ?? name);
  const file = existsSync(folder) && readdirSync(folder).sort().find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`build.mjs finds no licence text for ${name}: name one in licenceOf`);
  return readFileSync(join(folder, file), 'utf8').replace(/\r\n/g, '\n').replace(/[ \t]+$/gm, '').trim();
}

function packageOf(name) {
  return JSON.parse(readFileSync(join(inDemo.includes(name) ? demoModules : modules, name, 'package.json'), 'utf8'));
}

function mit(author) {
  const holder = typeof author === 'string' ? author : author.name;
  const text = licenceFor('graphiql');
  const permission = text.slice(text.indexOf('Permission is hereby granted'));
  return `MIT License\n\nCopyright (c) ${holder}\n\n${permission}`;
}

main();
