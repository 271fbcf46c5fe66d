// npm test
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readBadges, render } from './badges.mjs'
import { readPage } from './feed.mjs'

const dayMs = 86_400_000
const version = '0001763697600000'

test('counts, display and precision', () => {
  const badges = render('5', '300+', '3;9;100;2,1,0,0,0,0,0,1', '01DHJFY1G0003', 100 * dayMs)
  assert.equal(badges.version, '0000000000000005.2000000000000100')
  assert.deepEqual(badges.homeFeed, { value: 300, display: '99+', inTotal: true, precision: 'AT_LEAST', asOf: null })
  assert.deepEqual(badges.total, { value: 304, display: '99+', inTotal: true, precision: 'AT_LEAST', asOf: null })
  assert.equal(badges.notifications.newest, 'notificationUpTo:01DHJFY1G0003')
  assert.equal(render('5', '0', '3;9;100;2,1,0,0,0,0,0,1', '0000000000000', 101 * dayMs).notifications.like.value, 3)
})

test('a document that is not there is an error', async () => {
  await assert.rejects(readBadges({ hmget: async () => [null] }, 7), /no badge document/)
})

const store = {
  'p:01DHJFY1G0003': `${version}{"a":2,"k":"POST","b":"new"}`,
  'p:01DHJFY1G0002': `${version}{"a":85,"k":"POST","b":"old"}`,
  '{u2}:p': `${version}2147480000{"k":"bert","n":"Bert"}`,
  '{u85}:p': `${version}{"k":"cleo"}`
}
const members = ['01DHJFY1G0003!!!!#+', '01DHJFY1G0002!!!"!-']
const redis = {
  hget: async () => '1',
  zrange: async () => ['!0000000000000'],
  zrevrange: async () => [],
  zrevrangebylex: async (_, __, ___, ____, offset, count) => [...members, '!0000000000000'].slice(offset, offset + count),
  get: async (key) => store[key] ?? null
}

test('a page of the feed', async () => {
  const page = await readPage(redis, 7, 20)
  assert.deepEqual(page.edges.map(({ node }) => [node.id, node.body, node.author.key, node.author.name]), [
    ['post:01DHJFY1G0003', 'new', 'bert', 'Bert'],
    ['post:01DHJFY1G0002', 'old', 'cleo', null]
  ])
  assert.equal(page.pageInfo.hasNextPage, false)
  assert.equal(page.end, 'END')
  assert.equal(Buffer.from(page.pageInfo.startCursor, 'base64url').length, 13)
  const first = await readPage(redis, 7, 1)
  assert.equal(first.pageInfo.hasNextPage, true)
  assert.equal(first.end, null)
  assert.equal(first.lastId, 'post:01DHJFY1G0003')
})

test('a post that is not in Redis is an error', async () => {
  await assert.rejects(readPage({ ...redis, get: async () => null }, 7, 20), /is not in Redis/)
})
