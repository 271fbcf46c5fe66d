package messages

import (
	"context"
	"maps"

	"tidings/services"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// These are not the statements of readUserStates: the audit would then agree with a wrong reader of rebuilds. They count nothing.
var (
	auditedVersions = sql.NewStatement("audit the versions of a user's site messages", `SELECT s.type, s.ver FROM site_message_state s WHERE s.user_number = $1`)

	auditedUnread = sql.NewStatement("audit a user's unread site messages", `
SELECT r.message FROM site_message_recipients r WHERE r.user_number = $1 AND r.type = $2 AND r.read_at IS NULL ORDER BY r.message DESC LIMIT $3`)
)

// audit returns the versioned fields that a user's document should have, for the audit to compare. It shares neither the statements nor
// the counting with versionedFields.
func (s *Service) audit(ctx context.Context, user services.UserID) (fields []rdb.VersionedField, err error) {
	_, err = projector.CountUnchanged(func() (map[string]uint64, error) { return s.auditVersions(ctx, user) }, func(versions map[string]uint64) (bool, error) {
		fields = nil
		for kind, version := range versions {
			unread, err := sql.ReadColumn[ID](ctx, s.db, auditedUnread, user, kind, services.MaxCountedSiteMessages+1)
			if err != nil {
				return false, err
			}
			state := services.MessageTypeState{Type: kind, Version: version, Unread: len(unread), UnreadByDay: daysOf(unread)}
			if s.expiry.Expires(services.SourceSiteMessages) {
				fields = append(fields, rdb.MessageDaysVersionedField(state))
			} else {
				fields = append(fields, rdb.MessagesVersionedField(state))
			}
		}
		return len(versions) > 0, nil
	}, maps.Equal)
	return fields, err
}

// auditVersions returns the version of a user's state of each type of messages.
func (s *Service) auditVersions(ctx context.Context, user services.UserID) (map[string]uint64, error) {
	versions := map[string]uint64{}
	err := s.db.Each(ctx, auditedVersions, []any{user}, func(scan func(...any) error) error {
		var kind string
		var version uint64
		err := scan(&kind, &version)
		versions[kind] = version
		return err
	})
	return versions, err
}

// daysOf counts messages by day. They come with the newest first.
func daysOf(unread []ID) (days services.DayCounts) {
	for i, id := range unread {
		day := services.DayOf(id.Time())
		if i == 0 {
			days.NewestDay = day
		}
		if ago := days.NewestDay - day; ago < int64(len(days.CountByDay)) {
			days.CountByDay[ago]++
		} else {
			days.OlderCount++
		}
	}
	return days
}
