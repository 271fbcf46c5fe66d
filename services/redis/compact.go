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

// ListpackSetting is a setting of Redis: a collection up to this limit is stored as one listpack, which saves most of its memory.
type ListpackSetting struct {
	Name, OldName string // OldName is the name before Redis 7, which newer versions accept too
	MinValue      int    // the least value that is needed, in the setting's own unit
}

// listpackSettings are the settings that a package needs, and the warning about the cost without them.
type listpackSettings struct {
	settings []ListpackSetting
	warning  string // is logged if a Redis does not allow the settings
}

// registeredListpacks are the registered settings.
var registeredListpacks []listpackSettings

// RegisterListpacks makes every Client raise settings to at least the needed values. It logs warning if a Redis does not allow that.
// Call it at the initialisation of packages, before the first Client.
func RegisterListpacks(warning string, settings ...ListpackSetting) {
	registeredListpacks = append(registeredListpacks, listpackSettings{settings, warning})
}

// listpackConfigLines are the configuration lines for the private server, with the old names: every version of redis-server takes the
// old names.
func listpackConfigLines() string {
	var lines strings.Builder
	for _, need := range registeredListpacks {
		for _, setting := range need.settings {
			fmt.Fprintf(&lines, "%s %d\n", setting.OldName, setting.MinValue)
		}
	}
	return lines.String()
}

// raiseListpackSettings keeps collections compact on a Redis that this process did not start. A Redis that does not allow this still
// works, but takes more memory: this is a warning and no error.
func (c *Client) raiseListpackSettings(ctx context.Context) {
	// A private server has the settings from its start, and the embedded one has no listpacks.
	if c.localServer != nil {
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
func (l ListpackSetting) raise(ctx context.Context, master *redis.Client) error {
	// Before Redis 7 the setting has its old name only.
	for _, name := range []string{l.Name, l.OldName} {
		values, err := master.ConfigGet(ctx, name).Result()
		if err != nil {
			return err
		}
		// An unknown name is no error: CONFIG GET answers with the settings that match it, here with none.
		value, known := values[name]
		if !known {
			continue
		}
		if set, err := strconv.Atoi(value); err == nil && set >= l.MinValue {
			return nil
		}
		return master.ConfigSet(ctx, name, strconv.Itoa(l.MinValue)).Err()
	}
	return fmt.Errorf("this Redis has no setting %s", l.Name)
}
