package rdb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tidings/services"
)

// listpack is a setting below which Redis keeps a small collection in one piece, which is what makes it small.
type listpack struct {
	name, old string // old is the name before Redis 7, which newer ones understand too
	least     int
}

// listpacks are the settings that documents and inboxes rest on. 300 entries take 10 KB in one piece and 44 KB otherwise. A
// document in one piece takes 400 bytes, otherwise 1,000: one value that is too long is enough, and F and L have 12 bytes for
// each author whose posts are pulled, or who hosts shows: this is 100 of them.
var listpacks = []listpack{
	{"zset-max-listpack-entries", "zset-max-ziplist-entries", 512},
	{"hash-max-listpack-value", "hash-max-ziplist-value", 100 * namedSize},
}

// listpackSettings are the lines for the private server.
func listpackSettings() string {
	var lines strings.Builder
	for _, setting := range listpacks {
		fmt.Fprintf(&lines, "%s %d\n", setting.old, setting.least)
	}
	return lines.String()
}

// raiseListpacks keeps what users have compact on a Redis that others run.
func (c *Client) raiseListpacks(ctx context.Context) {
	if c.local != nil {
		return
	}
	err := c.eachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		var errs []error
		for _, setting := range listpacks {
			errs = append(errs, setting.raise(ctx, master))
		}
		return errors.Join(errs...)
	})
	if err != nil && !services.IsUnavailable(unavailable(err)) {
		c.costly.Do(func() {
			c.log.Warn("zset-max-listpack-entries and hash-max-listpack-value of this Redis cannot be raised to 512 and 1200: "+
				"if they are less, a full inbox takes about four times the memory, and so does the document of who follows "+
				"more than five hosts of shows, or authors with a huge audience", "error", err)
		})
	}
}

func (l listpack) raise(ctx context.Context, master *redis.Client) error {
	for _, name := range []string{l.name, l.old} {
		values, err := master.ConfigGet(ctx, name).Result()
		if err != nil {
			return err
		}
		value, known := values[name]
		if !known {
			continue
		}
		if set, err := strconv.Atoi(value); err == nil && set >= l.least {
			return nil
		}
		return master.ConfigSet(ctx, name, strconv.Itoa(l.least)).Err()
	}
	return fmt.Errorf("this Redis has no setting %s", l.name)
}
