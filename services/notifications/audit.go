package notifications

import (
	"context"
	"encoding/json"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// These are not the statements by which rebuilds read: the audit would then agree with a wrong one.
var (
	// auditedGroups reads the groups that are unseen, a row for each half day of a category, and one row for a category without any.
	auditedGroups = sql.NewStatement("audit the notification states of a user", `
SELECT s.category, s.ver, s.head, g.bucket, count(g.bucket) FROM notification_state s
LEFT JOIN notification_groups g ON g.recipient = s.recipient AND g.category = s.category AND g.newest > g.read_to AND g.newest > s.seen
WHERE s.recipient = $1 GROUP BY s.category, s.ver, s.head, g.bucket`)

	auditedPreferences = sql.NewStatement("audit the category preferences of a user", `SELECT c.preferences, c.ver FROM category_preferences c WHERE c.user_number = $1`)
)

// auditCounts returns the fields of the document with a user's counts, for the audit to compare. countVersionedFields returns the same fields.
// The two share neither the statement nor the counting, so that the audit finds errors in the other.
func (s *Service) auditCounts(ctx context.Context, user services.UserID) (fields []rdb.VersionedField, err error) {
	today := services.DayOf(s.db.Now())
	counts := map[services.Category]*services.CategoryCounts{}
	err = s.db.Each(ctx, auditedGroups, []any{user}, func(scan func(...any) error) error {
		of := services.CategoryCounts{NewestDay: today}
		var bucket sql.NullInt64 // null if the category has no unseen group
		var groups int
		if err := scan(&of.Category, &of.Version, &of.Newest, &bucket, &groups); err != nil {
			return err
		}
		if counts[of.Category] == nil {
			counts[of.Category] = &of
		}
		known := counts[of.Category]
		// A group that another node's clock dated tomorrow counts as of today.
		if ago := max(0, today-bucket.Int64/groupsPerDay); ago < int64(len(known.CountByDay)) {
			known.CountByDay[ago] += groups
		} else {
			known.OlderUnseen += groups
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var categories []services.Category
	for category := range counts {
		categories = append(categories, category)
	}
	hosts, err := s.Memory.definitionsFor(ctx, categories)
	for category, of := range counts {
		host, defined := hosts.Find(category)
		if category.HasHostCategoryForm() && (!defined || of.Newest == 0) {
			continue
		}
		of.HostCategoryID = host.ID
		fields = append(fields, rdb.CategoryVersionedFields(*of)...)
	}
	return fields, err
}

// auditModes returns the field of the document with a user's modes of categories, for the audit to compare. modeVersionedFields returns the
// same field. Each has its own statement and its own parser of the column, so that the audit finds errors in the other: auditModes must
// not share code with readPreferences.
func (s *Service) auditModes(ctx context.Context, user services.UserID) ([]rdb.VersionedField, error) {
	var version int64
	var text string
	if some, err := s.db.One(ctx, auditedPreferences, []any{user}, &text, &version); err != nil || !some || version == 0 {
		return nil, err
	}
	var list map[services.Category]map[string]any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	modes := services.CategoryModes{Version: uint64(version), ByCategory: map[services.Category]services.CategoryMode{}}
	for category, preference := range list {
		switch preference["mode"] {
		case "DOT":
			modes.ByCategory[category] = services.CategoryDot
		case "COUNT":
			modes.ByCategory[category] = services.CategoryCounted
		case "OFF":
			modes.ByCategory[category] = services.CategoryOff
		}
	}
	return []rdb.VersionedField{rdb.ModesVersionedField(modes)}, nil
}
