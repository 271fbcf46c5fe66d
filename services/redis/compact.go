package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tidings/services"
)

// Listpack is a setting below which Redis keeps a small collection in one piece, which is what makes it small.
type Listpack struct {
	Name, Old string // Old is the name before Redis 7, which newer ones understand too
	Least     int    // in the setting's own unit
}

// compactness is what needs some settings, and what is lost without them.
type compactness struct {
	settings []Listpack
	warning  string
}

// compacts are what was registered.
var compacts []compactness

// KeepCompact has every Client raise settings to what is needed at least; warning is logged of a Redis that does not
// let it. It is for the initialisation of packages, before the first Client.
func KeepCompact(warning string, settings ...Listpack) {
	compacts = append(compacts, compactness{settings, warning})
}

// compactSettings are the lines for the private server.
func compactSettings() string {
	var lines strings.Builder
	for _, need := range compacts {
		for _, setting := range need.settings {
			fmt.Fprintf(&lines, "%s %d\n", setting.Old, setting.Least)
		}
	}
	return lines.String()
}

// raiseCompact keeps collections compact on a Redis that others run.
func (c *Client) raiseCompact(ctx context.Context) {
	if c.local != nil {
		return
	}
	for _, need := range compacts {
		err := c.EachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			var errs []error
			for _, setting := range need.settings {
				errs = append(errs, setting.raise(ctx, master))
			}
			return errors.Join(errs...)
		})
		if err != nil && !services.IsUnavailable(Unavailable(err)) {
			c.costly.Do(func() { c.log.Warn(need.warning, "error", err) })
		}
	}
}

func (l Listpack) raise(ctx context.Context, master *redis.Client) error {
	for _, name := range []string{l.Name, l.Old} {
		values, err := master.ConfigGet(ctx, name).Result()
		if err != nil {
			return err
		}
		value, known := values[name]
		if !known {
			continue
		}
		if set, err := strconv.Atoi(value); err == nil && set >= l.Least {
			return nil
		}
		return master.ConfigSet(ctx, name, strconv.Itoa(l.Least)).Err()
	}
	return fmt.Errorf("this Redis has no setting %s", l.Name)
}
