// Says which changes between two schemas would break a client that was built on the first. A part may be removed once the removal
// date of its deprecation has come: @deprecated(reason: "Use newName. Removal: 2031-12-31."). Nothing else may break.
//
//	node breaking.mjs GOLDEN PRESENT
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { CriticalityLevel, diff } from '@graphql-inspector/core';
import { buildSchema, getNamedType } from 'graphql';

const date = /Removal: (\d{4}-\d{2}-\d{2})\.$/;

// removalOf is the date from which a deprecated part may be absent; undefined if it is not deprecated or has no date.
const removalOf = (part) => date.exec(part?.deprecationReason ?? '')?.[1];

// partOf is the part of a schema at a path: Type.field, Type.field.argument or Enum.VALUE.
function partOf(schema, path) {
  const [typeName, name, argument] = path.split('.');
  const type = schema.getType(typeName);
  const member = type?.getFields?.()[name] ?? type?.getValue?.(name);
  return argument ? member?.args?.find((one) => one.name === argument) : member;
}

// users are the parts of a schema that have a type, each with its type's name and the field that it belongs to.
function* users(schema, typeName) {
  for (const type of Object.values(schema.getTypeMap())) {
    if (type.getTypes?.().some((one) => one.name === typeName)) yield { of: type.name };
    for (const field of Object.values(type.getFields?.() ?? {})) {
      if (getNamedType(field.type).name === typeName) yield { of: type.name, parts: [field] };
      for (const argument of field.args ?? []) {
        if (getNamedType(argument.type).name === typeName) yield { of: type.name, parts: [argument, field] };
      }
    }
  }
}

// A default is a part of the contract: without it the argument or input field is required, and with another one, or a first one, a request
// that leaves the part out means something else.
const isDefault = ({ type }) => /_DEFAULT(_VALUE)?_CHANGED$/.test(type);

// breaking lists what would break, on a day such as 2031-12-31.
export async function breaking(goldenText, presentText, today) {
  const golden = buildSchema(goldenText);
  const changes = (await diff(golden, buildSchema(presentText))).filter((change) => change.criticality.level === CriticalityLevel.Breaking || isDefault(change));
  const due = (part) => removalOf(part) !== undefined && removalOf(part) <= today;
  const gone = new Set(changes.filter((change) => change.type === 'TYPE_REMOVED').map((change) => change.path));
  // A type goes with the last part that has it, and an argument with its field.
  const mayGo = (typeName) => [...users(golden, typeName)].every(({ of, parts = [] }) => gone.has(of) || parts.some(due));
  const allowed = (change) => {
    const { type, path } = change;
    if (type === 'TYPE_REMOVED') return mayGo(path);
    if (!type.endsWith('_REMOVED') && !isDefault(change)) return false;
    return due(partOf(golden, path)) || due(partOf(golden, path.split('.').slice(0, 2).join('.')));
  };
  return changes.filter((change) => !allowed(change)).map((change) => `breaking: ${change.path}: ${change.message}`);
}

// undated lists the parts of a schema whose deprecation does not say from when they may be absent.
export function undated(text) {
  const found = [];
  const check = (path, part) => {
    if (part.deprecationReason != null && !removalOf(part)) found.push(`${path}: the reason of a deprecation ends with "Removal: YYYY-MM-DD."`);
  };
  for (const type of Object.values(buildSchema(text).getTypeMap())) {
    for (const value of type.getValues?.() ?? []) check(`${type.name}.${value.name}`, value);
    for (const field of Object.values(type.getFields?.() ?? {})) {
      check(`${type.name}.${field.name}`, field);
      for (const argument of field.args ?? []) check(`${type.name}.${field.name}.${argument.name}`, argument);
    }
  }
  return found;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [golden, present] = process.argv.slice(2).map((file) => readFileSync(file, 'utf8'));
  const faults = [...(await breaking(golden, present, new Date().toISOString().slice(0, 10))), ...undated(present)];
  for (const fault of faults) console.error(fault);
  process.exit(faults.length ? 1 : 0);
}
