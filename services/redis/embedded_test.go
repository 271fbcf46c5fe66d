package redis

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/tests/eventually"
)

func TestKeysOfTheEmbeddedRedisExpire(t *testing.T) {
	c := connect(t, Options{URL: "embedded"})
	if err := c.Commands().Set(t.Context(), "short", 1, 100*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Commands().Set(t.Context(), "long", 1, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, 10*time.Second, "the short life ends", func() error {
		if n, err := c.Commands().Exists(t.Context(), "short").Result(); n != 0 || err != nil {
			return fmt.Errorf("%d, %v", n, err)
		}
		return nil
	})
	left, err := c.Commands().TTL(t.Context(), "long").Result()
	if err != nil || left <= 59*time.Minute || left >= time.Hour {
		t.Errorf("the long life has %s left, %v", left, err)
	}
}

func TestTheEmbeddedRedisRefusesOtherPrograms(t *testing.T) {
	c := connect(t, Options{URL: "embedded"})
	server := c.localServer.(*embeddedServer)
	if host, _, err := net.SplitHostPort(server.addr); host != "127.0.0.1" || err != nil {
		t.Errorf("it listens on %s", server.addr)
	}
	options := server.options()
	options.Password, options.Protocol = "", 2
	stranger := redis.NewClient(options)
	defer stranger.Close()
	if err := stranger.Get(t.Context(), "key").Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without the password: %v, want NOAUTH", err)
	}
}

func TestTwoEmbeddedRedisesShareNothing(t *testing.T) {
	a, b := connect(t, Options{URL: "embedded"}), connect(t, Options{URL: "embedded"})
	if err := a.Commands().Set(t.Context(), "key", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Commands().Exists(t.Context(), "key").Result(); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
