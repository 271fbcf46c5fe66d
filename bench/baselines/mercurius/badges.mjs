// The badge document: one HMGET, rendered here.
const dayMs = 86_400_000
const expireAfterDays = 7
const displayCap = 99
const fields = ['st', 'n', 'd', 'T', 'fc', 'NL', 'HL']
const noPlace = '0000000000000'
const sharedBase = 2_000_000_000_000_000 // of the version's second half: the day is added to it

export async function readBadges(redis, user) {
  const [st, n, , , fc, likes, newest] = await redis.hmget(`{u${user}}:b`, fields)
  if (st !== '1') throw new Error(`user ${user} has no badge document`)
  return render(n, fc, likes, newest.slice(newest.indexOf(';') + 1), Date.now())
}

export function render(n, fc, likes, newest, nowMs) {
  const today = Math.floor(nowMs / dayMs)
  const more = fc.endsWith('+')
  const homeFeed = count(parseInt(fc, 10), more ? 'AT_LEAST' : 'EXACT')
  const like = count(unexpired(likes, today), 'EXACT')
  const notifications = { newest: newest === noPlace ? null : `notificationUpTo:${newest}`, total: sum(like), like }
  return {
    version: `${n.padStart(16, '0')}.${sharedBase + today}`,
    total: sum(homeFeed, notifications.total),
    homeFeed,
    notifications
  }
}

// The counts are "ver;older;day;c0,...,c7": today's and those of the seven days before it.
function unexpired(text, today) {
  const [, , day, counts] = text.split(';')
  return counts.split(',').reduce((sum, count, i) => (today - (Number(day) - i) <= expireAfterDays ? sum + Number(count) : sum), 0)
}

function count(value, precision) {
  return { value, display: value > displayCap ? `${displayCap}+` : String(value), inTotal: true, precision, asOf: null }
}

function sum(...parts) {
  const atLeast = parts.some((part) => part.precision === 'AT_LEAST')
  return count(parts.reduce((sum, part) => sum + part.value, 0), atLeast ? 'AT_LEAST' : 'EXACT')
}
