package redis

import "github.com/redis/go-redis/v9"

// What callers name of the library, which this package alone imports: the commands that a pipeline takes and answers.
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

// Nil is the error of a command whose key or member is not there.
const Nil = redis.Nil
