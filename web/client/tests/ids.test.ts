// IDs of users: one way of escaping, the server's.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { escapeKey, userId } from '@tidings/client';

test('keys are escaped as the server does it', () => {
  const ids = {
    'A.b_c-9~': 'user:A.b_c-9~',
    'auth0|123': 'user:auth0%7C123',
    'auth0%7C123': 'user:auth0%257C123',
    'did:plc:x': 'user:did%3Aplc%3Ax',
    'Zoë': 'user:Zo%C3%AB',
    "a b+!'()*": 'user:a%20b%2B%21%27%28%29%2A',
    '👍': 'user:%F0%9F%91%8D',
  };
  for (const [key, id] of Object.entries(ids)) assert.equal(userId(key), id);
  assert.equal(escapeKey('\u0001\n"'), '%01%0A%22');
});
