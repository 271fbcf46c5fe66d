package notifications

import (
	"fmt"
	"slices"
	"strings"

	"tidings/services"
)

// Settings are the settings of notifications.
type Settings struct {
	Expiry []string `name:"notification-expiry" placeholder:"LIST" help:"the whole days for which an unseen notification counts, 1 to 7, or never to let it count for good: LIKE=2,MENTION=never; 7 for other categories"`
	// Categories of the settings are defined when the node begins, in SQL, beside those that operators defined: LoadAndDefineCategories.
	Categories []string `placeholder:"LIST" help:"categories of notifications of the application, up to 32, which are defined at the start: NAME, or NAME=OPTIONS with a + between the options: 1 to 7, the days for which an unseen notification counts (7), or never; single: notifications are not grouped; dot: shown as a dot, not in the total; apart: a number that is not in the total: orders=never+single,promotions=dot; a category that is removed from the list stays until removeCategory"`
}

// Faults returns the reasons why settings are invalid, by flag.
func (s Settings) Faults() map[string]string {
	_, expiry := parseExpiry(s.Expiry)
	_, categories := parseConfiguredCategories(s.Categories)
	return map[string]string{"notification-expiry": expiry, "categories": categories}
}

// parseExpiry reads CATEGORY=DAYS items, or answers why they are invalid. A category that is not named keeps its
// default. 1 to 7 days are allowed, because a count is kept for each of the last eight days; or never.
func parseExpiry(items []string) (expiry ExpiryDays, reason string) {
	expiry = ExpiryDays{}
	for _, item := range items {
		name, text, _ := strings.Cut(item, "=")
		// Categories of the application have their days in their own definition.
		category := services.Category(name)
		if !slices.Contains(services.Categories, category) {
			return nil, fmt.Sprintf("%s is not a category: expected one of %v, then = and the days", services.Quote(item), services.Categories)
		}
		days, reason := services.ParseExpiryDays(item, text)
		if reason != "" {
			return nil, reason
		}
		if _, twice := expiry[category]; twice {
			return nil, fmt.Sprintf("%s is named twice", category)
		}
		expiry[category] = days
	}
	return expiry, ""
}
