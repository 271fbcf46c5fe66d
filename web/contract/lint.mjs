// Runs graphql-eslint's rules for schemas and for Relay over the schema whose file is the argument.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import plugin from '@graphql-eslint/eslint-plugin';
import { Linter } from 'eslint';
import { parse } from 'graphql';

const rules = {
  ...plugin.configs['flat/schema-recommended'].rules,
  ...plugin.configs['flat/schema-relay'].rules,
  // Objects that can be fetched are Nodes, with an id. The others, as counts, edges and payloads, are part of what holds them.
  '@graphql-eslint/strict-id-in-types': 'off',
  // Lists are paged forward. Only the home feed goes both ways: a page above it is what is new.
  '@graphql-eslint/relay-arguments': ['error', { includeBoth: false }],
  // Short lists come whole, as the dots and what a mark has marked.
  '@graphql-eslint/relay-edge-types': ['error', { withEdgeSuffix: true, shouldImplementNode: true, listTypeCanWrapOnlyEdgeType: false }],
};

// What the rules find and the schema means.
const accepted = new Set([
  '@graphql-eslint/relay-arguments ConversationsChange.conversations', // the first page is pushed, and first stands on the subscription
  '@graphql-eslint/relay-arguments NotificationsChange.notifications', // the same
]);

const file = resolve(process.argv[2]);
const text = readFileSync(file, 'utf8');

// The type, or the type and its field, that each line begins.
const names = new Map();
for (const { name, fields } of parse(text).definitions) {
  if (name) names.set(name.loc.startToken.line, name.value);
  for (const field of fields ?? []) names.set(field.name.loc.startToken.line, `${name.value}.${field.name.value}`);
}

const config = { files: ['**'], languageOptions: { parser: plugin.parser, parserOptions: { graphQLConfig: { schema: file } } }, plugins: { '@graphql-eslint': plugin }, rules };
const found = new Linter({ configType: 'flat' })
  .verify(text, [config], { filename: 'schema.graphql' })
  .map(({ line, ruleId, message }) => ({ finding: `${ruleId} ${names.get(line) ?? line}`, message }));
const faults = found.filter(({ finding }) => !accepted.has(finding)).map(({ finding, message }) => `${finding}: ${message}`);
for (const finding of accepted) if (!found.some((one) => one.finding === finding)) faults.push(`${finding}: no longer found, and need not be accepted`);
for (const fault of faults) console.error(fault);
process.exit(faults.length ? 1 : 0);
