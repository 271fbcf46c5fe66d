// The keys that Graphcache asks for.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keys } from '@tidings/client/urql';

test('what has no id is part of what holds it', () => {
  assert.equal(keys.PageInfo!({ __typename: 'PageInfo' }), null);
  assert.equal(keys.BadgeCount!({ __typename: 'BadgeCount', value: 1 }), null);
});

test('a Node is left to Graphcache, which warns if its id is missing', () => {
  assert.equal(keys.Post, undefined);
  assert.equal(keys.Badges, undefined);
});

test('the types of other servers have their id, or a key of their own', () => {
  assert.equal(keys.Product!({ __typename: 'Product', id: '7' }), '7');
  Object.assign(keys, { Product: ({ sku }: { sku?: string }) => sku ?? null });
  assert.equal(keys.Product!({ __typename: 'Product', id: '7', sku: 'a' } as never), 'a');
});
