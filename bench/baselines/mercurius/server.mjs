// Serves the measured queries: node server.mjs PORT REDIS_URL USERS_FILE [PROCESSES]. USERS_FILE is JSON, key -> number.
import cluster from 'node:cluster'
import { readFileSync } from 'node:fs'
import Fastify from 'fastify'
import Redis from 'ioredis'
import mercurius from 'mercurius'
import { readBadges } from './badges.mjs'
import { readPage } from './feed.mjs'
import { schema } from './schema.mjs'

const [port, redisUrl, usersFile, processes = '1'] = process.argv.slice(2)

if (cluster.isPrimary && Number(processes) > 1) {
  for (let i = 0; i < Number(processes); i++) cluster.fork()
  cluster.on('exit', () => process.exit(1)) // half a baseline would be measured as a whole one
  process.on('SIGTERM', () => process.exit(0))
} else {
  await serve()
}

async function serve() {
  const numbers = new Map(Object.entries(JSON.parse(readFileSync(usersFile, 'utf8'))))
  const redis = new Redis(redisUrl, { enableAutoPipelining: true })
  const app = Fastify()
  app.register(mercurius, {
    schema,
    resolvers: {
      Query: { viewer: (_, __, { user }) => ({ user }) },
      Viewer: {
        badges: ({ user }) => readBadges(redis, user),
        homeFeed: ({ user }, { first }) => readPage(redis, user, first)
      }
    },
    context: (request) => ({ user: viewer(numbers, request.headers.authorization) }),
    jit: 1,
    path: '/graphql'
  })
  await app.listen({ port: Number(port), host: '127.0.0.1' })
  process.on('disconnect', () => process.exit(0)) // the primary is gone
}

// A token is dev:KEY; whoever is not in the file is nobody.
function viewer(numbers, authorization = '') {
  const user = numbers.get(authorization.split(':')[1])
  if (user === undefined) throw new Error('the token names nobody')
  return user
}
