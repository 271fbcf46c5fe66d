// Package badge is the document: every source's count, their total and one version, read in one round trip.
//
// The total is summed where the document is rendered, so that it equals its parts in every answer. A document that is
// missing is rebuilt from the facts before it is answered; it is never read as zero.
// Without Redis the same numbers are counted in SQL, a few readers at a time, and say that they are STALE from then on;
// when SQL does not answer either they are UNKNOWN, with a version that no client takes for news.
package badge

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/store"
)

// Config is what the badges need.
type Config struct {
	Store  *store.Store
	Redis  *rdb.Client
	Fanout *fanout.Fanout
	Mirror *mirror.Mirror
	Clock  services.Clock
	Log    *slog.Logger
	// ActiveFor is how long a user stays active without a visit; see fanout.Config.
	ActiveFor time.Duration
	// Caps are the largest numbers shown in full.
	Caps Caps
	// FallbackReaders bounds how many users are counted in SQL at once; 0 means 8.
	FallbackReaders int
}

// Service answers badges. It is safe for concurrent use.
type Service struct {
	store  *store.Store
	redis  *rdb.Client
	fanout *fanout.Fanout
	mirror *mirror.Mirror
	clock  services.Clock
	log    *slog.Logger

	caps     Caps
	fallback chan struct{}
	visits   *visits
	guesses  guesses
}

// New makes the service.
func New(cfg Config) *Service {
	if cfg.FallbackReaders == 0 {
		cfg.FallbackReaders = 8
	}
	return &Service{
		store: cfg.Store, redis: cfg.Redis, fanout: cfg.Fanout, mirror: cfg.Mirror, clock: cfg.Clock, log: cfg.Log,
		caps: cfg.Caps, fallback: make(chan struct{}, cfg.FallbackReaders), visits: newVisits(cfg),
	}
}

// Read answers the badges of one user.
func (s *Service) Read(ctx context.Context, user services.UserNumber) (*services.Badges, error) {
	badges, errs := s.ReadMany(ctx, []services.UserNumber{user})
	return badges[0], errs[0]
}

// ReadMany answers the badges of several users, in their order: one round trip for all whose documents are there.
// errs[i] is set only where the caller's context ended.
func (s *Service) ReadMany(ctx context.Context, users []services.UserNumber) (badges []*services.Badges, errs []error) {
	badges, errs = make([]*services.Badges, len(users)), make([]error, len(users))
	now := s.clock.Now()
	documents, err := s.redis.Documents(ctx, users)
	if err != nil {
		documents = make([]rdb.Document, len(users))
	}
	var group errgroup.Group
	group.SetLimit(cap(s.fallback))
	for i, user := range users {
		if documents[i].Ready {
			badges[i] = s.render(documents[i], now)
			s.visits.note(user, documents[i].Day)
			continue
		}
		group.Go(func() error {
			badges[i], errs[i] = s.readMissing(ctx, user, err)
			return nil
		})
	}
	_ = group.Wait() // errors stand in errs
	return badges, errs
}

// readMissing answers for a user whose document is not there: rebuilt, or counted in SQL when Redis does not answer.
func (s *Service) readMissing(ctx context.Context, user services.UserNumber, redisErr error) (*services.Badges, error) {
	if redisErr == nil {
		if redisErr = s.fanout.Rebuild(ctx, user); redisErr == nil {
			documents, err := s.redis.Documents(ctx, []services.UserNumber{user})
			if err == nil && documents[0].Ready {
				return s.render(documents[0], s.clock.Now()), nil
			}
			redisErr = err
		}
	}
	if redisErr != nil && !services.IsUnavailable(redisErr) {
		s.log.Error("badges were not rebuilt; counting in SQL", "error", redisErr)
	}
	return s.ReadFacts(ctx, user)
}

// ReadFacts counts in SQL, a few readers at a time: for when Redis does not answer, or does not show yet what the
// reader has just done.
func (s *Service) ReadFacts(ctx context.Context, user services.UserNumber) (*services.Badges, error) {
	select {
	case s.fallback <- struct{}{}:
		defer func() { <-s.fallback }()
	case <-ctx.Done():
		return nil, services.Wrapf(services.Unavailable, ctx.Err(), "badges: no answer in time")
	}
	now := s.clock.Now()
	document, err := s.countFacts(ctx, user)
	if err != nil {
		if ctx.Err() != nil {
			return nil, services.Wrapf(services.Unavailable, err, "badges: no answer in time")
		}
		s.log.Warn("badges are unknown: neither Redis nor SQL answers", "error", err)
		return unknown(s.redis.MessageTypes()), nil
	}
	document.N = uint64(now.UnixMicro())
	s.guesses.note(user, document.N)
	v := s.view(document, now)
	badges := v.render()
	for _, count := range everyPart(badges) {
		count.Precision, count.AsOf = services.Stale, now
	}
	v.sum(badges)
	return badges, nil
}

func (s *Service) render(document rdb.Document, now time.Time) *services.Badges {
	return s.view(document, now).render()
}

func (s *Service) view(document rdb.Document, now time.Time) *view {
	return &view{document: document, caps: s.caps, now: now}
}
