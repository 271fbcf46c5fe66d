package feed

import (
	"fmt"
	"slices"

	"tidings/services"
)

// Settings are the settings of home feeds.
type Settings struct {
	KindsInFeeds []string `name:"feed-kinds" default:"POST" placeholder:"LIST" for:"serve,import" words:"POST COMMENT REPLY" help:"the kinds of posts that enter home feeds and their counts: POST, COMMENT, REPLY, separated by commas; it applies to later posts"`
}

// Faults returns the reasons why settings are invalid, by flag.
func (s Settings) Faults() map[string]string {
	_, reason := parseKinds(s.KindsInFeeds)
	return map[string]string{"feed-kinds": reason}
}

// kinds are the kinds of posts that enter home feeds: the default, if the settings name none.
func (s Settings) kinds() []services.PostKind {
	kinds, _ := parseKinds(services.WithDefaults(s).KindsInFeeds) // Faults has checked them
	return kinds
}

// parseKinds reads the kinds of posts that enter home feeds, or answers why they are invalid. An import reads them too,
// because its posts enter the same feeds. Existing posts stay in home feeds, or out of them, as they were published.
func parseKinds(items []string) (kinds []services.PostKind, reason string) {
	for _, item := range items {
		kind := services.PostKind(item)
		if !slices.Contains(services.PostKinds, kind) {
			return nil, fmt.Sprintf("%s is not a kind of post: expected one of %v", services.Quote(item), services.PostKinds)
		}
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		return nil, "at least one kind is required"
	}
	return kinds, ""
}
