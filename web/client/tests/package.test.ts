// The package as npm packs it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { buildSchema, getNamedType, isAbstractType, isObjectType, parse, validate, visit, visitWithTypeInfo, TypeInfo, type GraphQLEnumType, type GraphQLObjectType } from 'graphql';
import { BADGES, possibleTypes } from '@tidings/client';

const root = join(import.meta.dirname, '..', '..');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const schema = buildSchema(readFileSync(join(root, 'tests', 'generated', 'schema.graphql'), 'utf8'));
const entries = ['index', 'apollo', 'urql', 'relay', 'react'];

test('npm pack packs these files and no others', () => {
  const [packed] = JSON.parse(execFileSync('npm', ['pack', '--dry-run', '--ignore-scripts', '--json'], { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
  const modules = ['clear', 'ids', 'list', 'schema', 'socket', 'tidings', 'token', 'version', ...entries];
  const expected = ['LICENSE', 'README.md', 'badges.graphql', 'package.json', ...modules.flatMap((name) => [`dist/${name}.d.ts`, `dist/${name}.js`])];
  assert.deepEqual(packed.files.map(({ path }: { path: string }) => path).sort(), expected.sort());
});

test('every entry point is there, with its types', () => {
  const files = Object.values(manifest.exports).flatMap((target) => (typeof target === 'string' ? [target] : Object.values(target as object)));
  assert.equal(files.length, 2 * entries.length + 2);
  for (const file of files) assert.ok(existsSync(join(root, file)), file);
});

async function bundle(names: readonly string[]) {
  const { outputFiles, metafile } = await build({
    stdin: { contents: names.map((name) => `export * from './dist/${name}.js';`).join('\n'), resolveDir: root },
    bundle: true,
    minify: true,
    format: 'esm',
    packages: 'external',
    write: false,
    metafile: true,
  });
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports.map(({ path }) => path));
  const code = outputFiles[0]!.contents;
  return { size: gzipSync(code).length, brotli: brotliCompressSync(code).length, imports: [...new Set(imports)].sort() };
}

test('the sizes are what the README says', async (t) => {
  const bounds = [...readme.matchAll(/under (\d+) KB/g)].map(([, size]) => Number(size) * 1024);
  const bundles = [['index'], ['index', 'react'], ['index', 'apollo', 'urql', 'relay'], entries];
  assert.equal(bounds.length, bundles.length);
  for (const [i, names] of bundles.entries()) {
    const { size, brotli } = await bundle(names);
    t.diagnostic(`bytes of ${names.join(', ')}: ${size} with gzip, ${brotli} with Brotli`);
    const compressed = names === entries ? brotli : size;
    assert.ok(compressed < bounds[i]!, `${names.join(', ')}: ${compressed} bytes`);
  }
});

test('every version that is promised is one that the tests have', () => {
  const major = (version: string) => /\d+/.exec(version)![0];
  for (const [name, range] of Object.entries<string>(manifest.peerDependencies)) assert.equal(range, `^${major(manifest.devDependencies[name])}.0.0`, name);
  const packages: Record<string, string> = { apollo: '@apollo/client', relay: 'relay-runtime', react: 'react' };
  for (const [entry, name] of Object.entries(packages)) {
    const row = readme.match(new RegExp(`^\\| .@tidings/client/${entry}. \\| (.*?) \\|`, 'm'))?.[1];
    assert.deepEqual(row?.match(/\d+/g), [major(manifest.devDependencies[name])], row);
  }
});

test('the hooks are for the browser alone, as Next.js wants to know in the first line', () => {
  assert.match(readFileSync(join(root, 'dist', 'react.js'), 'utf8'), /^'use client';/);
});

test('each entry point imports its own client and nothing else', async () => {
  const imports: Record<string, string[]> = {};
  for (const name of entries) imports[name] = (await bundle([name])).imports;
  assert.deepEqual(imports, {
    index: ['graphql-ws'],
    apollo: ['@apollo/client/utilities'],
    urql: ['wonka'],
    relay: ['relay-runtime'],
    react: ['react'],
  });
  assert.equal(manifest.dependencies, undefined);
});

test('the fragment is right by the schema, and has every count', () => {
  const document = parse(`query Q { viewer { id badges { ...TidingsBadges } } } ${BADGES}`);
  assert.deepEqual(validate(schema, document), []);
  const types = new TypeInfo(schema);
  const selected = new Map<string, Set<string>>();
  visit(parse(BADGES), visitWithTypeInfo(types, { Field: ({ name }) => void selected.set(String(types.getParentType()), (selected.get(String(types.getParentType())) ?? new Set()).add(name.value)) }));
  const wanted = new Map<string, Set<string>>();
  const want = (type: GraphQLObjectType) => {
    if (wanted.has(type.name)) return;
    const fields = Object.values(type.getFields());
    wanted.set(type.name, new Set(fields.map(({ name }) => name)));
    for (const field of fields) {
      const inner = getNamedType(field.type);
      if (isObjectType(inner)) want(inner);
    }
  };
  want(schema.getType('Badges') as GraphQLObjectType);
  assert.deepEqual(selected, wanted);
});

test('the possible types are those of the schema', () => {
  const abstract = Object.values(schema.getTypeMap()).filter(isAbstractType);
  assert.ok('Node' in possibleTypes);
  assert.deepEqual(possibleTypes, Object.fromEntries(abstract.map((type) => [type.name, schema.getPossibleTypes(type).map(({ name }) => name).sort()])));
});

test('the sources are those of the schema', () => {
  const declared = /type Source = (.*);/.exec(readFileSync(join(root, 'dist', 'schema.d.ts'), 'utf8'))![1]!.match(/\w+/g)!;
  const named = (schema.getType('BadgeSource') as GraphQLEnumType).getValues().map(({ name }) => name.toLowerCase().replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()));
  assert.deepEqual(declared.sort(), named.sort());
});

test('the README has a sample for each client, and all compile', () => {
  const samples = [...readme.matchAll(/^```(tsx?)\n(.*?)^```$/gms)].map(([, language, code], i) => ({ code: code!, file: `sample-${i + 1}.${language}` }));
  for (const entry of ['', '/apollo', '/urql', '/relay', '/react']) assert.ok(samples.some(({ code }) => code.includes(`'@tidings/client${entry}'`)), entry);
  for (const { file } of samples) assert.ok(existsSync(join(import.meta.dirname, 'generated', file.replace(/tsx?$/, 'js'))), `${file} was not compiled`);
});
