// The version guard, as all clients use it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createGuard, isOlder } from '@tidings/client';

const badges = (version: string, total: number) => ({ id: 'badges:alice', version, total: { value: total } });

test('versions compare as text, and nothing is older without one', () => {
  assert.equal(isOlder('0009', '0010'), true);
  assert.equal(isOlder('0010', '0010'), false);
  assert.equal(isOlder('0011', '0010'), false);
  assert.equal(isOlder(undefined, '0010'), false);
  assert.equal(isOlder('0010', undefined), false);
});

test('late badges leave with the fields of the newer ones, wherever they are in an answer', () => {
  const guard = createGuard();
  guard({ badgesChanged: badges('2', 5) });
  const late = guard({ viewer: { id: 'viewer:alice', list: [{ badges: badges('1', 4) }] }, other: { version: '0' } });
  assert.deepEqual(late, { viewer: { id: 'viewer:alice', list: [{ badges: badges('2', 5) }] }, other: { version: '0' } });
});

test('what is not late passes as it is', () => {
  const guard = createGuard();
  for (const version of ['1', '2', '2', '3']) {
    const answer = { badges: badges(version, 1) };
    assert.equal(guard(answer), answer);
  }
  assert.equal(guard(null), null);
});

test('each user has an order of their own', () => {
  const guard = createGuard();
  guard(badges('5', 1));
  assert.equal(guard({ ...badges('4', 7), id: 'badges:bob' }).version, '4');
});

test('a field that the newer badges lack stays as it came, and the next newer one replaces it', () => {
  const guard = createGuard();
  guard({ id: 'badges:alice', version: '3', total: { value: 5 } });
  const late = guard({ id: 'badges:alice', version: '2', total: { value: 4, display: '4' }, quiet: false });
  assert.deepEqual(late, { id: 'badges:alice', version: '3', total: { value: 5, display: '4' }, quiet: false });
  assert.deepEqual(guard({ id: 'badges:alice', version: '1', quiet: true }), { id: 'badges:alice', version: '3', quiet: false });
});

test('data that was passed is not changed', () => {
  const guard = createGuard();
  guard(badges('2', 5));
  const late = Object.freeze({ badges: Object.freeze(badges('1', 4)) });
  assert.equal(guard(late).badges.total.value, 5);
  assert.equal(late.badges.total.value, 4);
});

test('the listener is told of badges that are not late', () => {
  const passed: string[] = [];
  const guard = createGuard(({ version }) => passed.push(version));
  for (const version of ['1', '3', '2', '3', '4']) guard({ badges: badges(version, 0) });
  assert.deepEqual(passed, ['1', '3', '3', '4']);
});
