// Serves the measured queries: bun server.mjs PORT REDIS_URL USERS_FILE. USERS_FILE is JSON, key -> number.
// The schema and the reads are those of the Mercurius baseline.
import { readFileSync } from 'node:fs'
import { RedisClient } from 'bun'
import { buildSchema, parse, validate } from 'graphql'
import { compileQuery, isCompiledQuery } from 'graphql-jit'
import { readBadges } from '../mercurius/badges.mjs'
import { readPage } from '../mercurius/feed.mjs'
import { schema as text } from '../mercurius/schema.mjs'
import { adapt } from './redis.mjs'

const [port, redisUrl, usersFile] = process.argv.slice(2)
const numbers = new Map(Object.entries(JSON.parse(readFileSync(usersFile, 'utf8'))))
const client = new RedisClient(redisUrl, { enableAutoPipelining: true })
await client.connect()
const redis = adapt(client)

const schema = buildSchema(text)
schema.getQueryType().getFields().viewer.resolve = (_, __, { user }) => ({ user: user() })
const fields = schema.getType('Viewer').getFields()
fields.badges.resolve = ({ user }) => readBadges(redis, user)
fields.homeFeed.resolve = ({ user }, { first }) => readPage(redis, user, first)

// Each text is parsed, validated and compiled once.
const known = new Map()
function compiled(query) {
  let one = known.get(query)
  if (one === undefined) {
    const document = parse(query)
    const errors = validate(schema, document)
    one = errors.length > 0 ? { query: () => ({ errors }) } : compileQuery(schema, document)
    if (errors.length === 0 && !isCompiledQuery(one)) one = { query: () => one }
    known.set(query, one)
  }
  return one
}

const headers = { 'content-type': 'application/json; charset=utf-8' }

Bun.serve({
  port: Number(port),
  hostname: '127.0.0.1',
  async fetch(request) {
    const { query, variables } = await request.json()
    const authorization = request.headers.get('authorization')
    const answer = await compiled(query).query({}, { user: () => viewer(authorization) }, variables)
    return new Response(JSON.stringify(answer), { headers })
  }
})

// A token is dev:KEY; whoever is not in the file is nobody.
function viewer(authorization) {
  const user = numbers.get((authorization ?? '').split(':')[1])
  if (user === undefined) throw new Error('the token names nobody')
  return user
}
