package redis

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"tidings/services"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// embeddedClockInterval is how often the embedded Redis' clock is advanced: a key there expires up to a second late.
const embeddedClockInterval = time.Second

// embeddedServer is a Redis within this process, on a loopback port with a password of this run.
type embeddedServer struct {
	redis     *miniredis.Miniredis
	addr      string             // kept here, because the server takes its one lock to return it
	password  string             // of the clients
	stop      context.CancelFunc // ends advanceClock
	advancing sync.WaitGroup     // until advanceClock has ended
}

// startEmbedded starts the server. Its password keeps out other programs of this machine, which may reach every
// loopback port.
func startEmbedded() (*embeddedServer, error) {
	s := &embeddedServer{redis: miniredis.NewMiniRedis(), password: rand.Text()}
	s.redis.RequireAuth(s.password)
	if err := s.redis.StartAddr("127.0.0.1:0"); err != nil {
		return nil, err
	}
	s.addr = s.redis.Addr()
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.advancing.Go(func() { s.advanceClock(ctx) })
	return s, nil
}

// advanceClock advances the embedded Redis' clock: without that, the server never expires a key.
func (s *embeddedServer) advanceClock(ctx context.Context) {
	last := time.Now()
	_ = services.Every(ctx, embeddedClockInterval, func(context.Context) {
		now := time.Now()
		// The clock advances by the time that has really passed: a ticker skips ticks on a busy machine.
		s.redis.FastForward(now.Sub(last))
		last = now
	})
}

// options returns the options with which a client reaches the server.
func (s *embeddedServer) options() *redis.Options {
	return &redis.Options{Network: "tcp", Addr: s.addr, Password: s.password}
}

// close ends advanceClock before the server: the clock of a closed server must not be advanced.
func (s *embeddedServer) close() error {
	s.stop()
	s.advancing.Wait()
	s.redis.Close()
	return nil
}
