// Proves that breaking.mjs finds each kind of change that breaks a client, and lets through what does not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { breaking, undated } from './breaking.mjs';

const golden = `
type Query { post(id: ID!, old: Int @deprecated(reason: "Nobody needs it. Removal: 2030-01-01.")): Post  any: Any  kinds(of: [Kind!]): [Kind!]! }
type Post { id: ID!  body: String!  title: String  likes(first: Int): Likes! @deprecated(reason: "Use likeCount. Removal: 2030-01-01.") }
type Likes { count: Int!  by: Liker }
type Liker { name: String }
type Photo { id: ID! }
union Any = Post | Photo
enum Kind { POST  NOTE @deprecated(reason: "Use POST. Removal: 2030-01-01.") }
input Filter { kind: Kind  word: String  away: Boolean! = false  size: Int = 20 @deprecated(reason: "Use word. Removal: 2030-01-01.") }
type Mutation { find(filter: Filter!, most: Int = 10): Boolean }
`;

const changed = (from, to) => {
  assert.ok(golden.includes(from), `the schema has no ${from}`);
  return golden.replace(from, to);
};

const breaks = {
  'a field is gone': changed('body: String!', ''),
  'a field has another type': changed('body: String!', 'body: Int!'),
  'a field became nullable': changed('body: String!', 'body: String'),
  'a type is gone': changed('type Photo { id: ID! }', '').replace('| Photo', ''),
  'a union has a member less': changed('| Photo', ''),
  'an enum has a value less': changed('{ POST ', '{'),
  'an argument is gone': changed('(of: [Kind!])', ''),
  'an argument became required': changed('of: [Kind!]', 'of: [Kind!]!'),
  'an argument that is required was added': changed('(first: Int)', '(first: Int, by: ID!)'),
  'an input field is gone': changed('word: String', ''),
  'an input field became required': changed('word: String', 'word: String!'),
  'an input field that is required was added': changed('word: String', 'word: String  by: ID!'),
  'an input field lost its default': changed('Boolean! = false', 'Boolean!'),
  'an input field has another default': changed('Boolean! = false', 'Boolean! = true'),
  'an input field got a default': changed('word: String', 'word: String = "a"'),
  'an optional input field lost its default': changed('Boolean! = false', 'Boolean'),
  'an argument lost its default': changed('most: Int = 10', 'most: Int'),
  'an argument has another default': changed('most: Int = 10', 'most: Int = 20'),
  'an argument got a default': changed('(of: [Kind!])', '(of: [Kind!] = [POST])'),
  'what was deprecated has another type': changed('): Likes! @deprecated', '): Int! @deprecated'),
};

for (const [name, present] of Object.entries(breaks)) {
  test(name, async () => assert.notDeepEqual(await breaking(golden, present, '2040-01-01'), []));
}

const fine = {
  'nothing changed': golden,
  'a field was added': changed('title: String', 'title: String  editedAt: String'),
  'an optional argument was added': changed('(first: Int)', '(first: Int, after: String)'),
  'an optional input field was added': changed('word: String', 'word: String  by: ID'),
  'a field became non-null': changed('title: String', 'title: String!'),
  'an input field with a default was added': changed('word: String', 'word: String  more: Boolean! = true'),
  'a required input field became optional': changed('filter: Filter!', 'filter: Filter'),
  'a field was deprecated': changed('title: String', 'title: String @deprecated(reason: "Use body. Removal: 2031-01-01.")'),
  'an enum has a value more': changed('{ POST ', '{ POST STORY '),
};

for (const [name, present] of Object.entries(fine)) {
  test(name, async () => assert.deepEqual(await breaking(golden, present, '2020-01-01'), []));
}

const removed = {
  'a field, with the types that it alone had': changed('likes(first: Int): Likes! @deprecated(reason: "Use likeCount. Removal: 2030-01-01.")', '')
    .replace('type Likes { count: Int!  by: Liker }', '').replace('type Liker { name: String }', ''),
  'an argument': changed(', old: Int @deprecated(reason: "Nobody needs it. Removal: 2030-01-01.")', ''),
  'an argument of a field': changed('likes(first: Int)', 'likes'),
  'an input field with a default': changed('size: Int = 20 @deprecated(reason: "Use word. Removal: 2030-01-01.")', ''),
  'a default of an input field': changed('size: Int = 20', 'size: Int'),
  'an enum value': changed('NOTE @deprecated(reason: "Use POST. Removal: 2030-01-01.")', ''),
};

for (const [name, present] of Object.entries(removed)) {
  test(`removed when its day has come, and not before: ${name}`, async () => {
    assert.deepEqual(await breaking(golden, present, '2030-01-01'), []);
    assert.notDeepEqual(await breaking(golden, present, '2029-12-31'), []);
  });
}

test('a deprecation says from when the part may be absent', () => {
  assert.deepEqual(undated(golden), []);
  assert.equal(undated(changed('title: String', 'title: String @deprecated')).length, 1);
  assert.equal(undated(changed('word: String', 'word: String @deprecated(reason: "Use kind.")')).length, 1);
  assert.equal(undated(changed('(of: [Kind!])', '(of: [Kind!] @deprecated(reason: "Soon."))')).length, 1);
  assert.equal(undated(changed('{ POST ', '{ POST @deprecated(reason: "Removal: next year.") ')).length, 1);
});
