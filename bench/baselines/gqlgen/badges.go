package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	day                    = 24 * time.Hour
	notificationExpiryDays = 7                     // a like leaves its count so many days after its own day
	displayCap             = 99                    // a greater count is displayed as "99+"
	zeroID                 = "0000000000000"       // stands in Redis for no ID: there is no such post or notification
	versionSecondHalfBase  = 2_000_000_000_000_000 // the base of the shared half of the version, to which the day is added
)

// readBadges reads and renders a badge document: one HMGET.
func (r *Resolver) readBadges(ctx context.Context, user uint32) (*Badges, error) {
	values, err := r.redis.HMGet(ctx, fmt.Sprintf("{u%d}:b", user), "st", "n", "d", "T", "fc", "NL", "HL").Result()
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i], _ = value.(string)
	}
	if texts[0] != "1" {
		return nil, fmt.Errorf("user %d has no badge document", user)
	}
	n, err := strconv.ParseUint(texts[1], 10, 64)
	if err != nil {
		return nil, err
	}
	_, newest, _ := strings.Cut(texts[6], ";")
	return renderBadges(n, texts[4], texts[5], newest, time.Now())
}

// renderBadges makes the badges from fields of a document: its version n, the count of the feed, the counts of likes, and the ID of
// the newest notification.
func renderBadges(n uint64, feedCount, likes, newest string, now time.Time) (*Badges, error) {
	digits, more := strings.CutSuffix(feedCount, "+")
	value, err := strconv.Atoi(digits)
	if err != nil {
		return nil, fmt.Errorf("count of the feed: %w", err)
	}
	today := now.Truncate(day)
	like, err := sumUnexpiredCounts(likes, today.Unix()/int64(day/time.Second))
	if err != nil {
		return nil, err
	}
	badges := &Badges{
		Version:       fmt.Sprintf("%016d.%016d", n, versionSecondHalfBase+today.Unix()/int64(day/time.Second)),
		HomeFeed:      newCount(value, more),
		Notifications: &NotificationBadges{Total: newCount(like, false), Like: newCount(like, false)},
	}
	badges.Total = newCount(value+like, more)
	if newest != zeroID {
		id := "notificationUpTo:" + newest
		badges.Notifications.Newest = &id
	}
	return badges, nil
}

// sumUnexpiredCounts adds up the counts of today and of the seven days before. text is "ver;older;day;c0,...,c7", where c0 is the
// count of the day.
func sumUnexpiredCounts(text string, today int64) (sum int, err error) {
	parts := strings.Split(text, ";")
	if len(parts) != 4 {
		return 0, fmt.Errorf("counts %q: %d parts", text, len(parts))
	}
	first, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return 0, err
	}
	for i, part := range strings.Split(parts[3], ",") {
		count, err := strconv.Atoi(part)
		if err != nil {
			return 0, err
		}
		if today-(first-int64(i)) <= notificationExpiryDays {
			sum += count
		}
	}
	return sum, nil
}

// newCount returns a count as the schema has it. more says that the true number may be greater.
func newCount(value int, more bool) *BadgeCount {
	count := &BadgeCount{Value: value, Display: strconv.Itoa(value), InTotal: true, Precision: PrecisionExact}
	if value > displayCap {
		count.Display = strconv.Itoa(displayCap) + "+"
	}
	if more {
		count.Precision = PrecisionAtLeast
	}
	return count
}
