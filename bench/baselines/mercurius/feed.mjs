// A page of the home feed: the inbox, then the posts and their authors. Commands of one tick share a write.
const retention = 300
const idLetters = 13
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const letterValue = new Map([...alphabet].map((letter, value) => [letter, value]))

export async function readPage(redis, user, first) {
  const inbox = `{u${user}}:i`
  const [st, [sentinel], [oldest], raw] = await Promise.all([
    redis.hget(`{u${user}}:b`, 'st'),
    redis.zrange(inbox, 0, 0),
    redis.zrevrange(inbox, retention - 1, retention - 1),
    redis.zrevrangebylex(inbox, '(7ZZZZZZZZZZZZ', '-', 'LIMIT', 0, first + 1)
  ])
  if (st !== '1' || sentinel?.[0] !== '!') throw new Error(`user ${user} has no inbox`)
  let members = raw.filter((member) => member[0] !== '!')
  if (oldest && oldest[0] !== '!') members = members.filter((member) => member >= oldest)
  const hasNextPage = members.length > first
  members = members.slice(0, first)
  const edges = (await readPosts(redis, members)).map((node) => ({ cursor: cursor(user, node.id.slice(5)), node }))
  const last = members.at(-1)?.slice(0, idLetters)
  const cut = sentinel.slice(1) !== '0'.repeat(idLetters)
  return {
    edges,
    pageInfo: {
      hasNextPage,
      hasPreviousPage: false,
      startCursor: edges[0]?.cursor ?? null,
      endCursor: last ? cursor(user, last) : null
    },
    lastId: last ? `post:${last}` : null,
    end: hasNextPage ? null : cut ? 'RETENTION' : 'END'
  }
}

async function readPosts(redis, members) {
  const ids = members.map((member) => member.slice(0, idLetters))
  const numbers = members.map((member) => authorNumber(member))
  const distinct = [...new Set(numbers)]
  const [posts, users] = await Promise.all([
    Promise.all(ids.map((id) => redis.get(`p:${id}`))),
    Promise.all(distinct.map((number) => redis.get(`{u${number}}:p`)))
  ])
  const authors = new Map(distinct.map((number, i) => [number, author(number, users[i])]))
  return ids.flatMap((id, i) => {
    const copy = parseCopy(`p:${id}`, posts[i])
    if (copy.d) return []
    return [{ id: `post:${id}`, kind: copy.k, author: authors.get(numbers[i]), body: copy.b, publishedAt: new Date(millis(id)).toISOString() }]
  })
}

function author(number, text) {
  const copy = parseCopy(`{u${number}}:p`, text)
  return { id: `user:${copy.k}`, key: copy.k, name: copy.n ?? null, avatarUrl: copy.a ?? null }
}

// A copy is digits, of version and epoch, and JSON.
function parseCopy(key, text) {
  if (text === null) throw new Error(`${key} is not in Redis`)
  return JSON.parse(text.slice(text.indexOf('{')))
}

// The author's number is five letters of base 85, the first letter being "!".
function authorNumber(member) {
  let number = 0
  for (let i = idLetters; i < idLetters + 5; i++) number = number * 85 + member.charCodeAt(i) - 33
  return number
}

// An id has 65 bits in 13 letters: 42 of milliseconds lie above 21 others. Halves fit a JavaScript number.
function halves(id) {
  let high = 0
  for (let i = 0; i < 9; i++) high = high * 32 + letterValue.get(id[i])
  let low = 0
  for (let i = 9; i < idLetters; i++) low = low * 32 + letterValue.get(id[i])
  return [high, low]
}

function millis(id) {
  return Math.floor(halves(id)[0] / 2)
}

function cursor(user, id) {
  const [high, low] = halves(id)
  const bytes = Buffer.alloc(13)
  bytes[0] = 1
  bytes.writeUInt32BE(user, 1)
  bytes.writeUInt32BE(Math.floor(high / 4096), 5)
  bytes.writeUInt32BE((high % 4096) * 1_048_576 + low, 9)
  return bytes.toString('base64url')
}
