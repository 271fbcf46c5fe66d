// Generates the package's parts of the schema from graph/*.graphqls. The tests get the whole schema as
// tests/generated/schema.graphql. Nothing of this is committed: a change of the schema cannot leave it behind.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSchema, getNullableType, isAbstractType, isEnumType, isLeafType, isListType, isNonNullType, isObjectType, printSchema } from 'graphql';

const here = dirname(fileURLToPath(import.meta.url));
const folder = join(here, '..', '..', 'graph');
const schema = buildSchema(readdirSync(folder).filter((name) => name.endsWith('.graphqls')).sort().map((name) => readFileSync(join(folder, name), 'utf8')).join('\n'));

const paging = new Set(['first', 'after', 'last', 'before']);
const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()];
const types = Object.values(schema.getTypeMap()).filter((type) => !type.name.startsWith('__'));
const objects = types.filter((type) => isObjectType(type) && !roots.includes(type));

const possibleTypes = Object.fromEntries(types.filter(isAbstractType).map((type) => [type.name, schema.getPossibleTypes(type).map(({ name }) => name).sort()]));

// Each list in pages, with the arguments that choose what is in it.
const connections = {};
for (const type of objects) {
  for (const field of Object.values(type.getFields())) {
    if (!getNullableType(field.type).name?.endsWith('Connection')) continue;
    (connections[type.name] ??= {})[field.name] = field.args.map(({ name }) => name).filter((name) => !paging.has(name));
  }
}

// The sources of the badges: each is a count or has one called total.
const badges = Object.values(schema.getType('Badges').getFields());
const isCount = (field) => field && named(field.type).name === 'BadgeCount';
const sources = badges.filter((field) => field.name !== 'total' && (isCount(field) || isCount(named(field.type).getFields?.().total))).map(({ name }) => name);

// Every field that needs no argument, to the leaves.
function selection(type, indent) {
  const lines = [];
  for (const field of Object.values(type.getFields())) {
    if (field.args.length > 0) continue;
    const inner = named(field.type);
    if (isLeafType(inner)) lines.push(field.name);
    else if (inner.name === 'BadgeCount') lines.push(`${field.name} { ...TidingsCount }`);
    else lines.push(`${field.name} {\n${selection(inner, `${indent}  `)}\n${indent}}`);
  }
  return lines.map((line) => indent + line).join('\n');
}

function named(type) {
  return type.ofType ? named(type.ofType) : type;
}

function comment(text, indent = '') {
  return text ? `${indent}/** ${text.replace(/\s+/g, ' ').replace(/\*\//g, '* /')} */\n` : '';
}

// The types are those that GraphQL Code Generator makes of the fragment, so that the one can stand for the other.
function interfaces(type, seen = new Set()) {
  if (seen.has(type)) return '';
  seen.add(type);
  if (isEnumType(type)) return `${comment(type.description)}export type ${type.name} = ${type.getValues().map(({ name }) => `'${name}'`).join(' | ')};\n\n`;
  const fields = Object.values(type.getFields()).filter(({ args }) => args.length === 0);
  const own = fields.map((field) => `${comment(field.description, '  ')}  readonly ${field.name}${isNonNullType(field.type) ? '' : '?'}: ${of(field.type)};\n`).join('');
  const others = fields.map((field) => named(field.type)).filter((inner) => isObjectType(inner) || isEnumType(inner));
  return `${comment(type.description)}export interface ${type.name} {\n${own}}\n\n${others.map((inner) => interfaces(inner, seen)).join('')}`;
}

function of(type) {
  if (isNonNullType(type)) return bare(type.ofType);
  return `${bare(type)} | null`;
}

function bare(type) {
  if (isListType(type)) return isNonNullType(type.ofType) ? `${of(type.ofType)}[]` : `(${of(type.ofType)})[]`;
  return { ID: 'string', String: 'string', Version: 'string', Time: 'string', URL: 'string', Int: 'number', Float: 'number', Boolean: 'boolean' }[type.name] ?? type.name;
}

const fragment = `fragment TidingsBadges on Badges {
${selection(schema.getType('Badges'), '  ')}
}

fragment TidingsCount on BadgeCount {
${selection(schema.getType('BadgeCount'), '  ')}
}
`;

writeFileSync(join(here, 'src', 'schema.ts'), `// Written by schema.mjs.

/**
 * BADGES holds the fragment TidingsBadges: the id, the version and every count. Use it wherever badges are asked for: a cache
 * that is given fewer fields than a screen shows has to ask the server for the others.
 */
export const BADGES = \`${fragment.replace(/\s+/g, ' ')}\`;

/** The types of each interface. */
export const possibleTypes: Record<string, string[]> = ${JSON.stringify(possibleTypes)};

/** Each list in pages, with the arguments that choose what is in it. */
export const connections: Record<string, Record<string, readonly string[]>> = ${JSON.stringify(connections)};

/** A source of the badges. */
export type Source = ${sources.map((name) => `'${name}'`).join(' | ')};

${interfaces(schema.getType('Badges')).trim()}
`);
writeFileSync(join(here, 'badges.graphql'), fragment);
mkdirSync(join(here, 'tests', 'generated'), { recursive: true });
writeFileSync(join(here, 'tests', 'generated', 'schema.graphql'), printSchema(schema));
