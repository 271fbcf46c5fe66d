package rdb

import (
	"context"

	"tidings/services"
)

var notificationsPut = loadScript("notifications_put")

// NotificationCounts are the absolute counts of one user, some or all categories.
type NotificationCounts struct {
	User   services.UserNumber
	Counts []services.CategoryCounts
}

// PutNotifications writes absolute counts into the users' documents; for each category the newer version wins.
func (c *Client) PutNotifications(ctx context.Context, users []NotificationCounts) ([]Result, error) {
	calls := make([]call, len(users))
	for i, user := range users {
		args := make([]any, 0, 3*len(user.Counts))
		for _, counts := range user.Counts {
			args = append(args, string(counts.Category), countsText(counts), counts.Newest.String())
		}
		calls[i] = call{keys: []string{badgeKey(user.User), onlineKey(user.User)}, args: args}
	}
	return c.results(ctx, notificationsPut, calls)
}
