package redis

import "github.com/redis/go-redis/v9"

// These are the types of go-redis that callers need, because no other package imports go-redis. The types of commands are what a
// pipeline takes and returns.
type (
	Master             = redis.Client // one server of EachMaster
	Pipeliner          = redis.Pipeliner
	Cmder              = redis.Cmder
	DurationCmd        = redis.DurationCmd
	FloatCmd           = redis.FloatCmd
	FloatSliceCmd      = redis.FloatSliceCmd
	IntCmd             = redis.IntCmd
	MapStringStringCmd = redis.MapStringStringCmd
	SliceCmd           = redis.SliceCmd
	StringCmd          = redis.StringCmd
	StringSliceCmd     = redis.StringSliceCmd
	Z                  = redis.Z
	ZRangeBy           = redis.ZRangeBy
)

// Nil is the error of a command whose key or member does not exist.
const Nil = redis.Nil
