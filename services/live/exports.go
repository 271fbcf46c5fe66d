package live

import "tidings/services/export"

// statusTexts are the statuses, in the order of their numbers in SQL.
var statusTexts = func() (texts []string) {
	for _, status := range ShowStatuses {
		texts = append(texts, string(status))
	}
	return texts
}()

// Exports are the kinds of lines of an export of a user.
var Exports = []export.LineKind{
	export.NewLineKind("show", "id show, key text, title text, coverUrl text, replayUrl text, status showStatus, plannedAt time, startedAt time, endedAt time, cancelledAt time, updatedAt time", "id BIGINT",
		`SELECT id, import_key, title, cover_url, replay_url, status, planned_at, started_at, ended_at, cancelled_at, updated_at FROM shows
		WHERE host = $1`).WithEnum("showStatus", statusTexts),
	export.NewLineKind("reminder", "show show, at time", "show BIGINT", `SELECT show, made FROM reminders WHERE user_number = $1`),
}
