package rdb

import "tidings/services/redis"

// Redis stores small collections as listpacks: 300 entries take 10 KB as one and 44 KB otherwise. A document takes 400 bytes as a
// listpack and 1,000 otherwise. One value above the limit is enough to lose the listpack, and F and L have 12 bytes for each
// author whose posts are pulled or who hosts shows: the limit set here allows 100 such authors.
func init() {
	redis.RegisterListpacks("zset-max-listpack-entries and hash-max-listpack-value of this Redis cannot be raised to 512 and 1200: "+
		"if they are less, a full inbox takes about four times the memory, and so does the document of who follows "+
		"more than five hosts of shows, or authors with a huge audience",
		redis.ListpackSetting{Name: "zset-max-listpack-entries", OldName: "zset-max-ziplist-entries", MinValue: 512},
		redis.ListpackSetting{Name: "hash-max-listpack-value", OldName: "hash-max-ziplist-value", MinValue: 100 * packedAuthorSize},
	)
}
