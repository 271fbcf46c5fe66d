// bun test
import { expect, test } from 'bun:test'
import { adapt } from './redis.mjs'

test('the commands reach the client as Redis takes them', async () => {
  const sent = []
  const redis = adapt({
    hmget: async (key, fields) => { sent.push(['HMGET', key, ...fields]); return ['1'] },
    hget: async (key, field) => { sent.push(['HGET', key, field]); return '1' },
    get: async (key) => { sent.push(['GET', key]); return null },
    send: async (name, args) => { sent.push([name, ...args]); return [] }
  })
  expect(await redis.hmget('{u7}:b', ['st', 'n'])).toEqual(['1'])
  expect(await redis.hget('{u7}:b', 'st')).toBe('1')
  expect(await redis.get('p:1')).toBe(null)
  await redis.zrange('{u7}:i', 0, 0)
  await redis.zrevrange('{u7}:i', 299, 299)
  await redis.zrevrangebylex('{u7}:i', '(7', '-', 'LIMIT', 0, 21)
  expect(sent).toEqual([
    ['HMGET', '{u7}:b', 'st', 'n'],
    ['HGET', '{u7}:b', 'st'],
    ['GET', 'p:1'],
    ['ZRANGE', '{u7}:i', '0', '0'],
    ['ZREVRANGE', '{u7}:i', '299', '299'],
    ['ZREVRANGEBYLEX', '{u7}:i', '(7', '-', 'LIMIT', '0', '21']
  ])
})
