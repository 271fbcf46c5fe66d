package mirror

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/changelog"
)

// LogProfile is the kind of log entry for a changed profile; the key is the user ID.
const LogProfile = "profile"

// PeopleFacts reads people from SQL.
type PeopleFacts interface {
	Users(ctx context.Context, numbers []services.UserID) (map[services.UserID]services.User, error)
	UserIDs(ctx context.Context, keys []string) (map[string]services.UserID, error)
}

// People is this node's cache of recently read people: their profiles and user IDs. It is safe for concurrent use.
type People struct {
	*changelog.Cache[services.UserID, services.User]
	facts   PeopleFacts
	numbers *changelog.Cache[string, services.UserID]
}

// NewPeople makes an empty cache for so many people, 0 for 100,000, which follows the log.
func NewPeople(log *changelog.Follower, facts PeopleFacts, capacity int) *People {
	if capacity == 0 {
		capacity = keptByDefault
	}
	p := &People{
		Cache:   changelog.NewCache[services.UserID](capacity, func(u services.User) time.Time { return u.UpdatedAt }),
		facts:   facts,
		numbers: changelog.NewCache[string](capacity, func(services.UserID) time.Time { return time.Time{} }),
	}
	log.Register(changelog.Kind{Name: LogProfile, Load: changelog.Emptied(p.Clear), Apply: changelog.Each(p.apply)})
	return p
}

func (p *People) apply(entry changelog.Entry) {
	if number, err := services.ParseUserIDText(entry.Key); err == nil {
		p.Changed(number, entry.ChangedAt())
	}
}

// ReadFacts reads people from SQL into found and into the cache.
func (p *People) ReadFacts(ctx context.Context, users []services.UserID, found map[services.UserID]services.User) error {
	read, err := p.facts.Users(ctx, users)
	if err == nil {
		p.Take(found, read, nil)
	}
	return err
}

// Number finds the ID of a user by key; ok is false for a key that was never mentioned. IDs never change, so the cache is never
// wrong about them.
func (p *People) Number(ctx context.Context, key string) (number services.UserID, ok bool, err error) {
	if number, ok := p.numbers.Get(key); ok {
		return number, true, nil
	}
	numbers, err := p.Numbers(ctx, []string{key})
	number, ok = numbers[key]
	return number, ok, err
}

// Numbers finds the IDs of users by key, those that are not cached in one query. Keys that were never mentioned are absent.
func (p *People) Numbers(ctx context.Context, keys []string) (map[string]services.UserID, error) {
	found, missing := p.numbers.GetAll(keys)
	if len(missing) == 0 {
		return found, nil
	}
	numbers, err := p.facts.UserIDs(ctx, missing)
	if err != nil {
		return nil, err
	}
	for key, number := range numbers {
		found[key] = number
		p.numbers.Keep(key, number)
	}
	return found, nil
}

// RememberedNumber is the ID of a user's key if it is cached.
func (p *People) RememberedNumber(key string) (number services.UserID, ok bool) {
	return p.numbers.Get(key)
}

// KnowsNumber reports whether the ID of a key is cached.
func (p *People) KnowsNumber(key string) bool {
	_, known := p.numbers.Get(key)
	return known
}

// KeepNumber caches the ID of a new user.
func (p *People) KeepNumber(key string, number services.UserID) { p.numbers.Keep(key, number) }
