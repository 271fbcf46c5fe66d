package announcements

import (
	"context"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// auditedState is not userStates, and nothing here may call readUser: the audit would then agree with a wrong reader of rebuilds. It
// reads a row for each dot of the user. The other columns are the same in each row, and NULL where the user has nothing.
var auditedState = sql.NewStatement("audit the announcement state of a user", `
SELECT n.ver, n.position, n.dots_from, s.ver, s.segments, d.dot, d.seen FROM users u
LEFT JOIN user_notices n ON n.user_number = u.number
LEFT JOIN user_segments s ON s.user_number = u.number
LEFT JOIN user_dots d ON d.user_number = u.number
WHERE u.number = $1`)

// auditVersionedFields returns the versioned fields that a user's document should have, for the audit to compare. It shares neither the
// statement nor the assembling with versionedFields.
func (s *Service) auditVersionedFields(ctx context.Context, user services.UserID) (fields []rdb.VersionedField, err error) {
	first := true
	err = s.db.Each(ctx, auditedState, []any{user}, func(scan func(...any) error) error {
		var version, position, dotsFrom, segmentsVersion, bits, dismissed sql.NullInt64
		var dot sql.NullString
		if err := scan(&version, &position, &dotsFrom, &segmentsVersion, &bits, &dot, &dismissed); err != nil {
			return err
		}
		if first && version.Valid {
			fields = append(fields, rdb.AnnouncementVersionedField(services.AnnouncementState{
				Version: uint64(version.Int64), Position: uint64(position.Int64), DotsDismissedUpTo: uint64(dotsFrom.Int64),
			}))
		}
		if first && segmentsVersion.Valid {
			fields = append(fields, rdb.SegmentVersionedField(services.SegmentState{Version: uint64(segmentsVersion.Int64), Bits: uint64(bits.Int64)}))
		}
		if dot.Valid {
			fields = append(fields, rdb.DotVersionedField(dot.String, uint64(dismissed.Int64)))
		}
		first = false
		return nil
	})
	return fields, err
}
