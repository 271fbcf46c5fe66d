// Compares two schemas, the golden one and the present one, and fails when a client that was built on the golden one would
// break. A part that was deprecated in the golden schema may be removed.
import { readFileSync } from 'node:fs';
import { CriticalityLevel, diff } from '@graphql-inspector/core';
import { buildSchema } from 'graphql';

const [golden, present] = process.argv.slice(2).map((file) => buildSchema(readFileSync(file, 'utf8')));

// deprecated reports whether the element of a path (Type.field, Type.field.argument, Enum.VALUE) was deprecated.
function deprecated(path) {
  const [typeName, name, argument] = path.split('.');
  const type = golden.getType(typeName);
  const member = type?.getFields?.()[name] ?? type?.getValue?.(name);
  const named = argument ? member?.args?.find((one) => one.name === argument) : member;
  return Boolean(named?.deprecationReason || (argument && member?.deprecationReason));
}

const breaking = (await diff(golden, present))
  .filter((change) => change.criticality.level === CriticalityLevel.Breaking)
  .filter((change) => !(change.type.endsWith('_REMOVED') && deprecated(change.path)));
for (const change of breaking) console.error(`breaking: ${change.path}: ${change.message}`);
process.exit(breaking.length ? 1 : 0);
