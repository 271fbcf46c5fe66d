package mirror

import (
	"context"
	"strconv"
	"time"

	"tidings/services"
	"tidings/services/changelog"
)

// LogProfile is the kind of the log that says that a profile was set; the key is the user's number.
const LogProfile = "profile"

// PeopleFacts is what SQL knows of people.
type PeopleFacts interface {
	Users(ctx context.Context, numbers []services.UserID) (map[services.UserID]services.User, error)
	UserIDs(ctx context.Context, keys []string) (map[string]services.UserID, error)
}

// People is this node's memory of people who were read lately: their profiles and their numbers. It is safe for concurrent use.
type People struct {
	*changelog.Cache[services.UserID, services.User]
	facts   PeopleFacts
	numbers *changelog.Cache[string, services.UserID]
}

// NewPeople makes an empty memory of so many people, 0 for 100,000, which follows the log.
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
	if number, err := ParseUserID(entry.Key); err == nil {
		p.Changed(number, entry.At)
	}
}

// ReadFacts reads people from SQL into found and into memory.
func (p *People) ReadFacts(ctx context.Context, users []services.UserID, found map[services.UserID]services.User) error {
	read, err := p.facts.Users(ctx, users)
	if err == nil {
		p.Take(found, read, nil)
	}
	return err
}

// Number finds the number of a user's key; ok is false for one that was never mentioned. Numbers never change, so
// that memory is never wrong about them.
func (p *People) Number(ctx context.Context, key string) (number services.UserID, ok bool, err error) {
	if number, ok := p.numbers.Get(key); ok {
		return number, true, nil
	}
	numbers, err := p.Numbers(ctx, []string{key})
	number, ok = numbers[key]
	return number, ok, err
}

// Numbers finds the numbers of users' keys, those that memory has not in one query; keys that were never mentioned are absent.
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

// RememberedNumber is the number of a user's key if memory has it.
func (p *People) RememberedNumber(key string) (number services.UserID, ok bool) {
	return p.numbers.Get(key)
}

// KnowsNumber says that the number of a key is in memory.
func (p *People) KnowsNumber(key string) bool {
	_, known := p.numbers.Get(key)
	return known
}

// KeepNumber remembers the number that a user was given.
func (p *People) KeepNumber(key string, number services.UserID) { p.numbers.Keep(key, number) }

// ParseUserID reads a number as UserIDText prints it.
func ParseUserID(text string) (services.UserID, error) {
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, services.Errorf(services.Invalid, "%s is not a user number", services.Quote(text))
	}
	return services.UserID(number), nil
}

// UserIDText prints a number for the log's and the jobs' keys.
func UserIDText(user services.UserID) string { return strconv.FormatUint(uint64(user), 10) }
