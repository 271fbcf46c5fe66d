package redis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
)

func TestParseURLOfSeveral(t *testing.T) {
	type want struct {
		Mode, Addrs, Master, User, Password, SentinelUser, SentinelPassword string
		DB                                                                  int
		TLS                                                                 bool
	}
	for url, expected := range map[string]want{
		"redis+sentinel://a:1,b:2/main":                 {Mode: "sentinel", Addrs: "a:1 b:2", Master: "main"},
		"redis+sentinel://a:1/main/3":                   {Mode: "sentinel", Addrs: "a:1", Master: "main", DB: 3},
		"redis+sentinel://u:p%40ss@a:1,b:2,c:3/main":    {Mode: "sentinel", Addrs: "a:1 b:2 c:3", Master: "main", User: "u", Password: "p@ss"},
		"redis+sentinel://:p@a:1/m?sentinel_password=s": {Mode: "sentinel", Addrs: "a:1", Master: "m", Password: "p", SentinelPassword: "s"},
		"redis+sentinel://a:1/m?sentinel_username=n":    {Mode: "sentinel", Addrs: "a:1", Master: "m", SentinelUser: "n"},
		"rediss+sentinel://a:1/m":                       {Mode: "sentinel", Addrs: "a:1", Master: "m", TLS: true},
		"redis+cluster://a:1":                           {Mode: "cluster", Addrs: "a:1"},
		"redis+cluster://[::1]:1,b:2/0":                 {Mode: "cluster", Addrs: "[::1]:1 b:2"},
		"rediss+cluster://u:p@a:1,b:2":                  {Mode: "cluster", Addrs: "a:1 b:2", User: "u", Password: "p", TLS: true},
	} {
		at, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		got := want{Mode: at.mode, Addrs: strings.Join(at.addrs, " "), Master: at.masterName, User: at.user, Password: at.password,
			SentinelUser: at.sentinelUser, SentinelPassword: at.sentinelPassword, DB: at.db, TLS: at.tls != nil}
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", url, diff)
		}
	}
}

func TestParseURLOfOne(t *testing.T) {
	for url, want := range map[string]string{
		"redis://host:1234/5":         "tcp host:1234 5",
		"rediss://u:p@host:1":         "tcp host:1 0",
		"unix:///run/redis.sock":      "unix /run/redis.sock 0",
		"unix://u:p@/run/r.sock?db=2": "unix /run/r.sock 2",
	} {
		at, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := strings.Join([]string{at.single.Network, at.single.Addr, string(rune('0' + at.single.DB))}, " "); at.mode != "single" || got != want {
			t.Errorf("%s: %s %s, want single %s", url, at.mode, got, want)
		}
	}
}

func TestAURLThatCannotBeReadIsInvalidAndKeepsItsSecret(t *testing.T) {
	for _, url := range []string{
		"secret", "localhost:6379", "http://u:secret@host:1", "redis://u:secret@host:1/x", "redis://u:sec ret@%zz:1",
		"redis+sentinel://u:secret@a:1", "redis+sentinel://u:secret@a:1/", "redis+sentinel://u:secret@a:1/m/x",
		"redis+sentinel://u:secret@a:1/m/-1", "redis+sentinel://u:secret@a:1/m?%zz", "redis+sentinel://u:secret@a/m",
		"redis+sentinel://u:%zzsecret@a:1/m",
		"redis+cluster://", "redis+cluster://u:secret@a", "redis+cluster://u:secret@a:0", "redis+cluster://u:secret@a:70000",
		"redis+cluster://u:secret@a:1,", "redis+cluster://u:secret@:1", "redis+cluster://u:secret@a:1/1",
	} {
		_, err := Open(t.Context(), Options{URL: url})
		if services.CodeOf(err) != services.Invalid {
			t.Errorf("%s: %v, want INVALID", url, err)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error has the password: %v", url, err)
		}
	}
}

func TestDefaultOptions(t *testing.T) {
	o := Options{}.withDefaults()
	if o.URL != "auto" || o.Clock == nil || o.Log == nil || o.PoolSize < 32 {
		t.Errorf("defaults: %+v", o)
	}
	if o := (Options{URL: "embedded", PoolSize: 3, ReadTimeout: 5}).withDefaults(); o.URL != "embedded" || o.PoolSize != 3 || o.ReadTimeout != 5 {
		t.Errorf("what is set is kept: %+v", o)
	}
}
