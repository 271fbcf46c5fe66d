package announcements

import (
	"context"
	"math/bits"
	"slices"

	"tidings/services"
	"tidings/services/sql"
)

// everyoneSegment is the value of the column segment if a dot is raised for all users.
const everyoneSegment = -1

var (
	// countDots returns how many dots there are, and whether $1 is among them.
	countDots = sql.NewStatement("count dots", `SELECT count(DISTINCT dot), COALESCE(max(CASE WHEN dot = $1 THEN 1 ELSE 0 END), 0) FROM dot_raises`)

	// The later raise stays: an event of the past must not put out a dot that was raised since.
	raiseDots = sql.NewStatement("raise a dot", `INSERT INTO dot_raises (dot, segment, raised_at)
		SELECT dot, segment, raised_at FROM {rows $1 dot TEXT, segment BIGINT, raised_at BIGINT} AS r WHERE TRUE
		ON CONFLICT (dot, segment) DO UPDATE SET raised_at = CASE WHEN excluded.raised_at > dot_raises.raised_at THEN excluded.raised_at ELSE dot_raises.raised_at END`)

	// clearDotNow clears a dot for a user up to the present value of the announcements' clock. The statement itself reads the clock: a raise
	// that is committed later has a later stamp and lights the dot again.
	clearDotNow = sql.NewStatement("clear a dot", `INSERT INTO user_dots AS d (user_number, dot, seen)
		SELECT CAST($1 AS BIGINT), CAST($2 AS TEXT), value FROM counters
		WHERE name = 'notices' AND EXISTS (SELECT 1 FROM dot_raises WHERE dot = CAST($2 AS TEXT))
		ON CONFLICT (user_number, dot) DO UPDATE SET seen = CASE WHEN excluded.seen > d.seen THEN excluded.seen ELSE d.seen END
		RETURNING seen`)

	// clearDotUntil clears a dot for a user up to the stamp $3, for a clear at a past time.
	clearDotUntil = sql.NewStatement("clear a dot as it was", `INSERT INTO user_dots AS d (user_number, dot, seen) VALUES ($1, $2, $3)
		ON CONFLICT (user_number, dot) DO UPDATE SET seen = CASE WHEN excluded.seen > d.seen THEN excluded.seen ELSE d.seen END
		RETURNING seen`)

	// lastRaise is null for a dot that was never raised.
	lastRaise = sql.NewStatement("the last raise of a dot, and the user's last clear", `SELECT max(r.raised_at),
		COALESCE((SELECT seen FROM user_dots WHERE user_number = $1 AND dot = $2), 0),
		COALESCE((SELECT dots_from FROM user_notices WHERE user_number = $1), 0) FROM dot_raises r WHERE r.dot = $2`)

	// segmentBits reads the bits that stand for segments in the type Segments, by the names of the segments.
	segmentBits = sql.NewStatement("segments", `SELECT name, bit FROM segments WHERE {in name $1 TEXT}`)

	insertSegments = sql.NewInsertion("insert segments", "segments", "name TEXT, bit BIGINT", "ON CONFLICT DO NOTHING")

	lockSegments = sql.NewStatement("lock a user's segments", `SELECT segments FROM user_segments WHERE user_number = $1 {for update}`)

	// The version stays if the segments are the same. Otherwise it rises, also if the clock was set back.
	upsertSegments = sql.NewStatement("set a user's segments", `INSERT INTO user_segments AS s (user_number, ver, segments) VALUES ($1, $2, $3)
		ON CONFLICT (user_number) DO UPDATE SET segments = excluded.segments, ver = CASE WHEN s.segments = excluded.segments THEN s.ver
			WHEN excluded.ver > s.ver THEN excluded.ver ELSE s.ver + 1 END
		RETURNING ver`)
)

// raiseDot records that a dot was raised at a stamp for a target. The first raise creates the dot; CONFLICT if maxDots others
// exist. The caller holds the announcements' clock.
func raiseDot(ctx context.Context, tx *sql.Tx, name string, target Segments, stamp uint64) error {
	var dots, known int
	// Dots are never removed, so their number is the number of names that were ever raised.
	if _, err := tx.One(ctx, countDots, []any{name}, &dots, &known); err != nil {
		return err
	}
	if known == 0 && dots >= maxDots {
		return services.Errorf(services.Conflict, "name: %s would be dot %d, up to %d are allowed", services.Quote(name), dots+1, maxDots)
	}
	var raised sql.RowsParameter
	// Each segment has its own row, so that a later raise for one segment changes only the row of that segment.
	for rest := uint64(target); rest != 0; rest &= rest - 1 {
		raised = append(raised, []any{name, bits.TrailingZeros64(rest), stamp})
	}
	if target == 0 {
		raised = sql.RowsParameter{{name, everyoneSegment, stamp}}
	}
	_, err := tx.Run(ctx, raiseDots, raised)
	return err
}

// targetOf is the target of a row of dot_raises.
func targetOf(segment int64) Segments {
	if segment == everyoneSegment {
		return 0
	}
	return 1 << segment
}

// clearDot records that a user has seen a dot as it is now. It returns the stamp up to which the dot is cleared, and whether the
// dot was lit before: raised both since the user last cleared it and since their first visit. NOT_FOUND if it was never raised.
func clearDot(ctx context.Context, tx *sql.Tx, user services.UserID, name string) (seen uint64, changed bool, err error) {
	var raised sql.NullInt64
	var cleared, from int64
	if _, err := tx.One(ctx, lastRaise, []any{user, name}, &raised, &cleared, &from); err != nil {
		return 0, false, err
	}
	if !raised.Valid {
		return 0, false, services.Errorf(services.NotFound, "name: there is no dot %s", services.Quote(name))
	}
	// A clear at a past time covers the raises up to that time, and leaves later ones.
	if at := tx.EventMoment(); at != 0 {
		until := int64(pastStamp(at))
		_, err = tx.One(ctx, clearDotUntil, []any{user, name, until}, &seen)
		return seen, raised.Int64 > max(cleared, from) && until > cleared, err
	}
	_, err = tx.One(ctx, clearDotNow, []any{user, name}, &seen)
	return seen, raised.Int64 > max(cleared, from), err
}

// ensureSegments returns the bits of segments by name. A segment that is new gets the next bit. CONFLICT, with the segment's
// name, when there would be more than maxSegments.
func ensureSegments(ctx context.Context, tx *sql.Tx, names []string) (Segments, error) {
	known, err := readSegmentBits(ctx, tx.Runner, names)
	if err != nil || len(known) == len(names) {
		return union(known), err
	}
	if err := tx.LockCounter(ctx, "segments"); err != nil {
		return 0, err
	}
	// The former holder of the lock may have added some of these segments meanwhile.
	if known, err = readSegmentBits(ctx, tx.Runner, names); err != nil {
		return 0, err
	}
	var lacking []string
	for _, name := range names {
		if known[name] == 0 && !slices.Contains(lacking, name) {
			lacking = append(lacking, name)
		}
	}
	given, err := tx.RaiseCounter(ctx, "segments", len(lacking))
	if err != nil {
		return 0, err
	}
	// RaiseCounter returned the new value of the counter. Its former value is the first new bit.
	given -= int64(len(lacking))
	var fresh [][]any
	for _, name := range lacking {
		// The error rolls the counter back.
		if given >= maxSegments {
			return 0, services.Errorf(services.Conflict, "segments: %s would be segment %d, up to %d are allowed",
				services.Quote(name), given+1, maxSegments)
		}
		fresh = append(fresh, []any{name, given})
		known[name] = 1 << given
		given++
	}
	_, err = tx.Insert(ctx, insertSegments, fresh)
	return union(known), err
}

// readSegmentBits returns the bits of the segments that exist among some names. A name that was never used is absent.
func readSegmentBits(ctx context.Context, r sql.Runner, names []string) (map[string]Segments, error) {
	if len(names) == 0 {
		return map[string]Segments{}, nil
	}
	return sql.ReadByKey(ctx, r, segmentBits, []any{names}, func(scan sql.Scan, name *string, segment *Segments) error {
		var bit int64
		err := scan(name, &bit)
		*segment = 1 << bit
		return err
	})
}

// union is the set of some segments.
func union(known map[string]Segments) (all Segments) {
	for _, bit := range known {
		all |= bit
	}
	return all
}

// setSegments sets the segments of a user, in place of all former ones. It returns the version of the set, and whether the set
// has changed.
func setSegments(ctx context.Context, tx *sql.Tx, user services.UserID, segments Segments) (version uint64, changed bool, err error) {
	var had int64
	if _, err := tx.One(ctx, lockSegments, []any{user}, &had); err != nil {
		return 0, false, err
	}
	_, err = tx.One(ctx, upsertSegments, []any{user, tx.Now, int64(segments)}, &version)
	return version, had != int64(segments), err
}
