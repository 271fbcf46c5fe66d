package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"tidings/services"
)

// redisReplyError is an error in Redis' answer.
type redisReplyError string

func (r redisReplyError) Error() string { return string(r) }
func (redisReplyError) RedisError()     {} // makes it a redis.Error

// dialError makes the error that a connection to an absent server returns.
func dialError() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// timeoutError makes the error of an answer that does not come in time.
func timeoutError() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
}

func TestClassificationOfErrors(t *testing.T) {
	for _, test := range []struct {
		name        string
		err         error
		unavailable bool // for the caller
		outage      bool // for the breaker
	}{
		{"refused", dialError(), true, true},
		{"wrapped", fmt.Errorf("get: %w", dialError()), true, true},
		{"read time-out", timeoutError(), true, true},
		{"end of file", io.EOF, true, true},
		{"cut short", io.ErrUnexpectedEOF, true, true},
		{"closed connection", net.ErrClosed, true, true},
		{"no sentinel", errors.New("redis: all sentinels specified in configuration are unreachable: x"), true, true},
		{"loading", redisReplyError("LOADING Redis is loading the dataset in memory"), true, true},
		{"no master", redisReplyError("MASTERDOWN Link with MASTER is down"), true, true},
		{"too many clients", redisReplyError("ERR max number of clients reached"), true, true},
		{"slots away", redisReplyError("CLUSTERDOWN The cluster is down"), true, false},
		{"a replica", redisReplyError("READONLY You can't write against a read only replica."), true, false},
		{"a slot moves", redisReplyError("TRYAGAIN Multiple keys request during rehashing of slot"), true, false},
		{"full", redisReplyError("OOM command not allowed when used memory > 'maxmemory'."), true, false},
		{"cannot save", redisReplyError("MISCONF Redis is configured to save RDB snapshots"), true, false},
		{"busy", redisReplyError("BUSY Redis is busy running a script"), true, false},
		{"replicas missing", redisReplyError("NOREPLICAS Not enough good replicas to write."), true, false},
		{"pool time-out", redis.ErrPoolTimeout, true, false},
		{"pool exhausted", redis.ErrPoolExhausted, true, false},
		{"breaker open", gobreaker.ErrOpenState, true, false},
		{"breaker half open", gobreaker.ErrTooManyRequests, true, false},
		{"the caller's time is up", context.DeadlineExceeded, true, false},
		{"the caller has gone", context.Canceled, true, false},
		{"closed client", redis.ErrClosed, true, false},
		{"wrong type", redisReplyError("WRONGTYPE Operation against a key holding the wrong kind of value"), false, false},
		{"no script", redisReplyError("NOSCRIPT No matching script."), false, false},
		{"another slot", redisReplyError("CROSSSLOT Keys in request don't hash to the same slot"), false, false},
		{"busy group", redisReplyError("BUSYGROUP Consumer Group name already exists"), false, false},
		{"a script's own", redisReplyError("ERR no luck"), false, false},
		{"nothing there", redis.Nil, false, false},
		{"any other", errors.New("something"), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			mapped := MapError(test.err)
			if services.IsUnavailable(mapped) != test.unavailable {
				t.Errorf("MapError(%v) = %v, code %s", test.err, mapped, services.CodeOf(mapped))
			}
			if !errors.Is(mapped, test.err) {
				t.Errorf("the cause is lost: %v", mapped)
			}
			if !test.unavailable && mapped != test.err {
				t.Errorf("changed to %v", mapped)
			}
			if again := MapError(mapped); again != mapped {
				t.Errorf("mapped twice: %v", again)
			}
			if counts := isOutage(test.err) && !saysNothingAboutServer(test.err); counts != test.outage {
				t.Errorf("counts for the breaker: %v, want %v", counts, test.outage)
			}
		})
	}
	if err := MapError(nil); err != nil {
		t.Errorf("MapError(nil) = %v", err)
	}
}
