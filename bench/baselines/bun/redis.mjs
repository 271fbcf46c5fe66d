// Bun's Redis client with the calls that the reads make: those of ioredis. Bun pipelines the commands of one tick by itself.
export function adapt(client) {
  return {
    hmget: (key, fields) => client.hmget(key, fields),
    hget: (key, field) => client.hget(key, field),
    get: (key) => client.get(key),
    zrange: (key, ...rest) => client.send('ZRANGE', [key, ...rest.map(String)]),
    zrevrange: (key, ...rest) => client.send('ZREVRANGE', [key, ...rest.map(String)]),
    zrevrangebylex: (key, ...rest) => client.send('ZREVRANGEBYLEX', [key, ...rest.map(String)])
  }
}
