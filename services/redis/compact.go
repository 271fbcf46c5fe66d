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

// Listpack is a setting of Redis: a collection up to this limit is stored as one listpack, which saves most of its memory.
type Listpack struct {
	Name, Old string // Old is the name before Redis 7, which newer versions accept too
	Least     int    // in the setting's own unit
}

// listpackSettings are the settings that a package needs, and the warning about the cost without them.
type listpackSettings struct {
	settings []Listpack
	warning  string
}

// registeredListpacks are the registered settings.
var registeredListpacks []listpackSettings

// RegisterListpacks makes every Client raise settings to at least the needed values. It logs warning if a Redis does not allow that.
// Call it at the initialisation of packages, before the first Client.
func RegisterListpacks(warning string, settings ...Listpack) {
	registeredListpacks = append(registeredListpacks, listpackSettings{settings, warning})
}

// listpackLines are the configuration lines for the private server, with the old names: every version of redis-server takes the
// old names.
func listpackLines() string {
	var lines strings.Builder
	for _, need := range registeredListpacks {
		for _, setting := range need.settings {
			fmt.Fprintf(&lines, "%s %d\n", setting.Old, setting.Least)
		}
	}
	return lines.String()
}

// raiseListpacks keeps collections compact on a Redis that this process did not start. A Redis that does not allow this still
// works, but takes more memory: this is a warning and no error.
func (c *Client) raiseListpacks(ctx context.Context) {
	// A private server has the settings from its start, and the embedded one has no listpacks.
	if c.local != nil {
		return
	}
	for _, need := range registeredListpacks {
		// Every master gets all settings, even if it refuses one of them.
		err := c.EachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			var errs []error
			for _, setting := range need.settings {
				errs = append(errs, setting.raise(ctx, master))
			}
			return errors.Join(errs...)
		})
		// A Redis that does not answer is asked again when its scripts are loaded.
		if err != nil && !services.IsUnavailable(MapError(err)) {
			c.warnMemoryCost.Do(func() { c.log.Warn(need.warning, "error", err) })
		}
	}
}

// raise sets the setting under the name that this version knows. A higher value of the operator stays.
func (l Listpack) raise(ctx context.Context, master *redis.Client) error {
	// Before Redis 7 the setting has its old name only.
	for _, name := range []string{l.Name, l.Old} {
		values, err := master.ConfigGet(ctx, name).Result()
		if err != nil {
			return err
		}
		// An unknown name is no error: CONFIG GET answers with the settings that match it, here with none.
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
