package redis

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis/redistest"
	"tidings/tests/eventually"
)

func TestEveryModeOpensPingsAndRunsAScript(t *testing.T) {
	eachRedisMode(t, func(t *testing.T, mode, url string) {
		c := connect(t, Options{URL: url})
		if c.Mode() != mode {
			t.Errorf("Mode() = %q, want %q", c.Mode(), mode)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("Ping: %v", err)
		}
		replies, err := c.Run(t.Context(), setScript, []ScriptCall{{Keys: []string{"{a}"}, Args: []any{"one"}}, {Keys: []string{"{b}"}, Args: []any{2}}})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"one", "2"} {
			if replies[i].Err != nil || replies[i].Value != want {
				t.Errorf("reply %d = %v, %v, want %q", i, replies[i].Value, replies[i].Err, want)
			}
		}
		slack := map[string]uint64{"cluster": 1_000_000}[mode]
		if c.stampSlackMicros() != slack {
			t.Errorf("stampSlackMicros() is %d, want %d", c.stampSlackMicros(), slack)
		}
	})
}

func TestScriptsOfThePackageAreLoadedAtOpen(t *testing.T) {
	if len(registeredScripts) == 0 {
		t.Fatal("the package has no scripts")
	}
	eachRedisMode(t, func(t *testing.T, mode, url string) {
		c := connect(t, Options{URL: url})
		for _, s := range registeredScripts {
			// On a cluster the answer is true if every master has the script.
			there, err := c.Commands().ScriptExists(t.Context(), s.sha1).Result()
			if err != nil || !there[0] {
				t.Errorf("script %s: loaded %v, %v", s.Name, there, err)
			}
		}
	})
}

func TestOpenAgainAndCloseTwice(t *testing.T) {
	url := redistest.Redis(t)
	for range 2 {
		c, err := Open(t.Context(), Options{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if err := c.Ping(t.Context()); !services.IsUnavailable(err) {
			t.Errorf("Ping after Close: %v, want UNAVAILABLE", err)
		}
	}
}

func TestAutoTakesAPrivateServerWhereThereIsOne(t *testing.T) {
	c := connect(t, Options{URL: "auto"})
	if c.Mode() != "private" {
		t.Errorf("with redis-server in PATH the mode is %q, want private", c.Mode())
	}
}

func TestAutoWithoutRedisServerIsEmbeddedAndWarnsOnce(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var log redistest.LogRecorder
	c := connect(t, Options{Log: log.Log()})
	if c.Mode() != "embedded" {
		t.Errorf("mode %q, want embedded", c.Mode())
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, log.String())
	}
}

func TestPrivateWithoutRedisServerSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Open(t.Context(), Options{URL: "private", DataDir: t.TempDir()})
	if !services.IsUnavailable(err) || !strings.Contains(err.Error(), "apt-get install redis-server") {
		t.Errorf("error %v, want UNAVAILABLE with the command that installs it", err)
	}
}

// addressWithoutListener is an address without a listener.
func addressWithoutListener(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestARedisThatIsNotThereIsUnavailableByName(t *testing.T) {
	address := addressWithoutListener(t)
	for _, url := range []string{
		"redis://:secret@" + address,
		"unix://:secret@/nowhere/redis.sock",
		"redis+sentinel://user:secret@" + address + "/main",
		"redis+cluster://user:secret@" + address,
	} {
		_, err := Open(t.Context(), Options{URL: url})
		if !services.IsUnavailable(err) {
			t.Errorf("Open(%s): %v, want UNAVAILABLE", url, err)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%s): the error has the password: %v", url, err)
		}
		if want := map[bool]string{true: "/nowhere/redis.sock", false: address}[strings.HasPrefix(url, "unix")]; !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s): %v does not name %s", url, err, want)
		}
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	hole := redistest.NewProxy(t, redistest.NewServer(t).Addr())
	hole.BlackHole(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, Options{URL: hole.URL(), ReadTimeout: time.Minute}); !services.IsUnavailable(err) {
		t.Errorf("error %v, want UNAVAILABLE", err)
	}
}

func TestTheClientOutlivesTheContextOfOpen(t *testing.T) {
	for _, url := range []string{"private", "embedded"} {
		ctx, cancel := context.WithCancel(t.Context())
		c, err := Open(ctx, Options{URL: url, DataDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("%s: Ping after the context of Open has ended: %v", url, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestARefusedPasswordIsInvalid(t *testing.T) {
	server := redistest.NewServer(t)
	server.Do("ACL", "SETUSER", "guest", "on", ">right", "~*", "+@all")
	_, err := Open(t.Context(), Options{URL: strings.Replace(server.URL(), "redis://", "redis://guest:secret@", 1)})
	if services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), server.Addr()) || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v (%s), want INVALID with the address and without the password", err, services.CodeOf(err))
	}
}

func TestARestartedRedisIsPreparedAgain(t *testing.T) {
	server := redistest.NewServer(t)
	c := connect(t, Options{URL: server.URL()})
	server.Kill()
	server.Start()
	server.Do("CONFIG", "SET", "zset-max-listpack-entries", 128)
	eventually.Succeeds(t, 5*time.Second, "a script runs", func() error {
		_, err := c.Run(t.Context(), addMemberScript, addMemberCalls(1, 1))
		return err
	})
	c.backgroundWork.Wait()
	values, err := c.Commands().ConfigGet(t.Context(), "zset-max-listpack-entries").Result()
	if err != nil || values["zset-max-listpack-entries"] != "512" {
		t.Errorf("zset-max-listpack-entries = %v, %v, want 512", values, err)
	}
}

func TestListpacksAreRaisedAndNeverLowered(t *testing.T) {
	for _, setting := range registeredListpacks[len(registeredListpacks)-1].settings {
		for before, want := range map[int]int{64: setting.MinValue, setting.MinValue: setting.MinValue, 2000: 2000} {
			server := redistest.NewServer(t)
			server.Do("CONFIG", "SET", setting.Name, before)
			c := connect(t, Options{URL: server.URL()})
			values, err := c.Commands().ConfigGet(t.Context(), setting.Name).Result()
			if err != nil || values[setting.Name] != fmt.Sprint(want) {
				t.Errorf("%s = %v, %v after %d, want %d", setting.Name, values, err, before, want)
			}
		}
	}
}

func TestListpacksThatMayNotBeRaisedAreOneWarning(t *testing.T) {
	server := redistest.NewServer(t)
	server.Do("CONFIG", "SET", "zset-max-listpack-entries", 128)
	server.Do("ACL", "SETUSER", "guest", "on", ">word", "~*", "&*", "+@all", "-config")
	var log redistest.LogRecorder
	connect(t, Options{URL: strings.Replace(server.URL(), "redis://", "redis://guest:word@", 1), Log: log.Log()})
	if n := strings.Count(log.String(), "four times the memory"); n != 1 {
		t.Errorf("%d warnings that name the cost, want 1:\n%s", n, log.String())
	}
}

func TestSettingsOfTheClients(t *testing.T) {
	options := Options{}.withDefaults()
	at, err := parseURL("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	single := options.singleOptions(at.single, nil)
	if !single.ContextTimeoutEnabled || single.ReadTimeout != 400*time.Millisecond || single.MaxRetries != -1 || single.DialerRetries != 1 ||
		single.PoolTimeout > 100*time.Millisecond || single.MaintNotificationsConfig.Mode != "disabled" {
		t.Errorf("single: %+v", single)
	}
	cluster := options.clusterOptions(&dialTarget{addrs: []string{"127.0.0.1:1"}}, nil)
	if cluster.ClusterStateReloadInterval != time.Second {
		t.Errorf("cluster: a dead master is left after %s, want a reload every second", cluster.ClusterStateReloadInterval)
	}
	if !cluster.ContextTimeoutEnabled || cluster.ReadTimeout != 400*time.Millisecond || cluster.MaxRetries != -1 || cluster.DialerRetries != 1 ||
		cluster.PoolTimeout > 100*time.Millisecond || cluster.MaintNotificationsConfig.Mode != "disabled" {
		t.Errorf("cluster: %+v", cluster)
	}
	sentinel := options.sentinelOptions(&dialTarget{addrs: []string{"127.0.0.1:1"}, masterName: "m"})
	if !sentinel.ContextTimeoutEnabled || sentinel.ReadTimeout != 400*time.Millisecond || sentinel.MaxRetries != -1 || sentinel.DialerRetries != 1 ||
		sentinel.PoolTimeout > 100*time.Millisecond {
		t.Errorf("sentinel: %+v", sentinel)
	}
}

// A Redis that may be late is no error at Open. Its scripts, settings and lineage are prepared when it answers.
func TestALateRedisIsPreparedWhenItComes(t *testing.T) {
	server := redistest.NewServer(t)
	server.Kill()
	var log redistest.LogRecorder
	c := connect(t, Options{URL: server.URL(), AllowLateServer: true, Log: log.Log()})
	if err := c.Ping(t.Context()); !services.IsUnavailable(err) {
		t.Errorf("Ping before it has come: %v, want UNAVAILABLE", err)
	}
	if n := strings.Count(log.String(), "runs without Redis"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, log.String())
	}
	server.Start()
	server.Do("CONFIG", "SET", "zset-max-listpack-entries", 128)
	watching, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.WatchMasters(watching) }()
	eventually.Succeeds(t, 10*time.Second, "it is prepared", func() error {
		if c.awaitsFirstAnswer.Load() {
			return fmt.Errorf("it is late still: %s", log.String())
		}
		return nil
	})
	stop()
	<-ended
	for _, s := range registeredScripts {
		if there, err := c.Commands().ScriptExists(t.Context(), s.sha1).Result(); err != nil || !there[0] {
			t.Errorf("script %s: loaded %v, %v", s.Name, there, err)
		}
	}
	values, err := c.Commands().ConfigGet(t.Context(), "zset-max-listpack-entries").Result()
	if err != nil || values["zset-max-listpack-entries"] != "512" {
		t.Errorf("zset-max-listpack-entries = %v, %v, want 512", values, err)
	}
	if c.epoch.value() == noEpoch {
		t.Error("its lineage is not known")
	}
}

// On a busy machine a server that a node has just started may stall. The node waits for it as for any other.
func TestAPrivateServerMayBeLate(t *testing.T) {
	c, err := Open(t.Context(), Options{URL: modePrivate, DataDir: t.TempDir(), AllowLateServer: true, ReadTimeout: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	if !c.awaitsFirstAnswer.Load() {
		t.Error("it answered within a nanosecond")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A malformed URL and a wrong password remain errors: waiting does not fix them.
func TestAllowLateServerRefusesAWrongURLOrPassword(t *testing.T) {
	server := redistest.NewServer(t)
	server.Do("ACL", "SETUSER", "guest", "on", ">right", "~*", "+@all")
	for _, url := range []string{"rediz://127.0.0.1:1", strings.Replace(server.URL(), "redis://", "redis://guest:secret@", 1)} {
		if _, err := Open(t.Context(), Options{URL: url, AllowLateServer: true}); services.CodeOf(err) != services.Invalid {
			t.Errorf("Open(%s): %v, want INVALID", url, err)
		}
	}
}
