package rdb

import "tidings/services/redis"

// 300 entries take 10 KB in one piece and 44 KB otherwise. A document in one piece takes 400 bytes, otherwise 1,000: one
// value that is too long is enough, and F and L have 12 bytes for each author whose posts are pulled, or who hosts shows:
// this is 100 of them.
func init() {
	redis.KeepCompact("zset-max-listpack-entries and hash-max-listpack-value of this Redis cannot be raised to 512 and 1200: "+
		"if they are less, a full inbox takes about four times the memory, and so does the document of who follows "+
		"more than five hosts of shows, or authors with a huge audience",
		redis.Listpack{Name: "zset-max-listpack-entries", Old: "zset-max-ziplist-entries", Least: 512},
		redis.Listpack{Name: "hash-max-listpack-value", Old: "hash-max-ziplist-value", Least: 100 * namedSize},
	)
}
