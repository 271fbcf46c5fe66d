package rdb

import (
	"context"

	"tidings/services"
)

// NotificationCounts are the absolute counts of one user, some or all categories.
type NotificationCounts struct {
	User   services.UserNumber
	Counts []services.CategoryCounts
}

// PutNotifications writes absolute counts into the users' documents; for each category the newer version wins.
func (c *Client) PutNotifications(ctx context.Context, users []NotificationCounts) ([]Result, error) {
	registers := make([]Registers, len(users))
	for i, user := range users {
		registers[i].User = user.User
		for _, counts := range user.Counts {
			registers[i].Fields = append(registers[i].Fields, CategoryRegisters(counts)...)
		}
	}
	return c.PutRegisters(ctx, registers)
}
