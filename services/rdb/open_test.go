package rdb

import (
	"testing"
)

var echo = newScript("echo", "return {KEYS[1], ARGV[1]}")

func TestOpenSmoke(t *testing.T) {
	for _, url := range []string{"private", "embedded"} {
		t.Run(url, func(t *testing.T) {
			c, err := Open(t.Context(), Options{URL: url, DataDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			replies, err := c.runScript(t.Context(), echo, []call{{keys: []string{"k"}, args: []any{"a"}}, {keys: []string{"k"}, args: []any{"b"}}})
			t.Log(replies, err, c.Mode())
			if err != nil || replies[1].err != nil {
				t.Fatal(err)
			}
		})
	}
}
