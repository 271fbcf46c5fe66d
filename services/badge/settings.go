package badge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tidings/services"
	"tidings/services/badge/source"
)

// Settings are the settings of badges.
type Settings struct {
	BadgeExpiry []string `placeholder:"LIST" help:"the whole days for which an unread item of a source counts, 1 to 7, or never to let it count for good: CONVERSATIONS=7,HOME_FEED=3; sources are ${expirable_sources}, and never is for one that is not named; other sources cannot expire; all nodes need the same setting"`
	DisplayCaps []string `placeholder:"LIST" help:"the largest counts shown in full, 1 to 9999: TOTAL=99,CONVERSATIONS=999; sources are ${sources}; 99 for the others"`
}

// Faults returns the reasons why settings are invalid, by flag.
func (s Settings) Faults() map[string]string {
	_, expiry := services.ParseSourceExpiry(s.BadgeExpiry)
	_, caps := parseDisplayCaps(s.DisplayCaps)
	return map[string]string{"badge-expiry": expiry, "display-caps": caps}
}

// Expiry is BadgeExpiry as the projector and the projections take it. Faults has checked it.
func (s Settings) Expiry() services.SourceExpiry {
	expiry, _ := services.ParseSourceExpiry(s.BadgeExpiry)
	return expiry
}

// Caps is DisplayCaps as the renderings take it. Faults has checked it.
func (s Settings) Caps() source.DisplayCaps {
	caps, _ := parseDisplayCaps(s.DisplayCaps)
	return caps
}

// parseDisplayCaps reads SOURCE=CAP items, or returns a reason that names the invalid item. A number of more than four
// digits fits beside no icon.
func parseDisplayCaps(items []string) (caps source.DisplayCaps, reason string) {
	caps = source.DisplayCaps{}
	for _, item := range items {
		name, text, _ := strings.Cut(item, "=")
		key := services.Source(name)
		if key != source.CapTotal && !slices.Contains(services.Sources, key) {
			return nil, fmt.Sprintf("%s is not a source: expected %s or one of %v, then = and the cap", services.Quote(item), source.CapTotal, services.Sources)
		}
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 || limit > 9999 {
			return nil, fmt.Sprintf("%s: 1 to 9999 is allowed after the =", services.Quote(item))
		}
		// Without this check the later value would win, and the operator would not see why.
		if _, twice := caps[key]; twice {
			return nil, fmt.Sprintf("%s is named twice", key)
		}
		caps[key] = limit
	}
	return caps, ""
}
