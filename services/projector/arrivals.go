package projector

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// VisitWriter writes a feature's own data when a user visits. It runs in the transaction that records the visit, and before the
// visit is recorded, so it still reads the time of the previous visit. It may be repeated.
type VisitWriter func(ctx context.Context, tx *sql.Tx, user services.UserID) error

// OnVisit registers a VisitWriter. All features register theirs before the first visit.
func (p *Projector) OnVisit(write VisitWriter) { p.visitWriters = append(p.visitWriters, write) }

// visit is the day of a visit, since 1970, and how long the user's keys live from now on unless the user comes again.
type visit struct {
	day         int64
	keyLifetime time.Duration
}

// minKeyLifetime is the least lifetime that latestVisit returns without a visit. By the present thresholds the keys may have expired
// already: then their user counts as idle.
const minKeyLifetime = time.Hour

// latestVisit returns the latest visit of a user whose document is rebuilt. For a visit it records the present one, so that posts
// published from now on are pushed to the user. For any other reason it returns the visit that SQL has. pushed is false if that was
// so long ago that not all posts are pushed to the user any more: their document is not shown until they return.
func (p *Projector) latestVisit(ctx context.Context, user services.UserID, reason rebuildReason) (latest visit, pushed bool, err error) {
	if reason == forVisit {
		err := p.RecordVisit(ctx, user)
		return visit{p.today(), p.RedisKeyLifetime()}, err == nil, err
	}
	visits, err := people.LastVisits(ctx, p.db, []services.UserID{user})
	if err != nil || visits[user].Before(p.IdleBefore()) {
		return latest, false, err
	}
	seen := visits[user]
	// The keys live as long as if they had been made at that visit. If another node's clock is ahead, the visit may lie in the
	// future: it then counts as now.
	lifetime := p.RedisKeyLifetime() - max(0, p.clock.Now().Sub(seen))
	return visit{services.DayOf(seen), max(lifetime, minKeyLifetime)}, true, nil
}

// RecordVisit records a visit, which makes the user active, and runs every feature's VisitWriter.
func (p *Projector) RecordVisit(ctx context.Context, user services.UserID) error {
	return p.db.Write(ctx, func(tx *sql.Tx) error {
		for _, write := range p.visitWriters {
			if err := write(ctx, tx, user); err != nil {
				return err
			}
		}
		return people.MarkActive(ctx, tx, []services.UserID{user})
	})
}
