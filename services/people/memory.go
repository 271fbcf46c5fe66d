package people

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/changelog"
)

// ProfileChangelogKind is the kind of log entry for a changed profile; the key is the user ID.
const ProfileChangelogKind = "profile"

// UserFacts reads people from SQL. Unknown users are absent.
type UserFacts interface {
	Users(ctx context.Context, ids []services.UserID) (map[services.UserID]services.User, error)
	UserIDs(ctx context.Context, keys []string) (map[string]services.UserID, error)
}

// Memory is this node's cache of recently read people: their profiles and user IDs. It is safe for concurrent use. Profiles are
// kept up to date by the changelog. The ID of a key never changes while its user exists, so IDs need the log only for erasures.
type Memory struct {
	*changelog.Cache[services.UserID, services.User]
	facts UserFacts
	// userIDs has the users' IDs by key. They have no version, because they do not change.
	userIDs *changelog.Cache[string, services.UserID]
}

// NewMemory makes an empty cache that follows the log. capacity is how many people it holds; 0 means 100,000.
func NewMemory(log *changelog.Follower, facts UserFacts, capacity int) *Memory {
	if capacity == 0 {
		capacity = 100_000
	}
	m := &Memory{
		Cache:   changelog.NewCache[services.UserID](capacity, func(u services.User) time.Time { return u.UpdatedAt }),
		facts:   facts,
		userIDs: changelog.NewCache[string](capacity, func(services.UserID) time.Time { return time.Time{} }),
	}
	log.Register(changelog.Kind{Name: ProfileChangelogKind, Load: changelog.LoadByClearing(m.forgetAll), Apply: m.apply})
	return m
}

// apply applies the entries of changed profiles. An entry has no user if its user was erased before this node read it. Then apply
// returns false, and the cache is emptied, because it may still have the ID of that user.
func (m *Memory) apply(entries []changelog.Entry) bool {
	for _, entry := range entries {
		id, err := services.ParseUserIDText(entry.Key)
		if err != nil {
			return false
		}
		m.RecordChange(id, entry.ChangedAt())
	}
	return true
}

// forgetAll forgets all users, after the log could not be followed.
func (m *Memory) forgetAll() {
	m.Clear()
	m.userIDs.Clear()
}

// ReadFacts reads people from SQL into found. It also puts them into the cache, except those that changed meanwhile.
func (m *Memory) ReadFacts(ctx context.Context, users []services.UserID, found map[services.UserID]services.User) error {
	read, err := m.facts.Users(ctx, users)
	if err == nil {
		m.AddReadValues(found, read, nil)
	}
	return err
}

// endOfTime is later than any change of a profile.
var endOfTime = time.Unix(1<<40, 0)

// Drop forgets a user who is being erased, and reports whether their key was known. From then on the cache keeps no copy of their
// profile; but a caller that has read their ID before may still pass it to KeepUserID.
func (m *Memory) Drop(user services.UserID, key string) bool {
	m.RecordChange(user, endOfTime)
	return m.userIDs.DropIf(key, func(id services.UserID) bool { return id == user })
}

// UserID finds the ID of a user by key; ok is false for a key that was never mentioned. IDs never change, so the cache is always
// right, except for users who are being erased: see Drop.
func (m *Memory) UserID(ctx context.Context, key string) (id services.UserID, ok bool, err error) {
	if id, ok := m.userIDs.Get(key); ok {
		return id, true, nil
	}
	ids, err := m.UserIDs(ctx, []string{key})
	id, ok = ids[key]
	return id, ok, err
}

// UserIDs finds the IDs of users by key. It reads the IDs that are not cached by one query. Keys that were never mentioned are
// absent.
func (m *Memory) UserIDs(ctx context.Context, keys []string) (map[string]services.UserID, error) {
	found, missing := m.userIDs.GetAll(keys)
	if len(missing) == 0 {
		return found, nil
	}
	ids, err := m.facts.UserIDs(ctx, missing)
	if err != nil {
		return nil, err
	}
	for key, id := range ids {
		found[key] = id
		m.userIDs.Keep(key, id)
	}
	return found, nil
}

// CachedUserID is the ID of a user's key if it is cached. It reads no SQL, for requests that are answered from memory.
func (m *Memory) CachedUserID(key string) (id services.UserID, ok bool) {
	return m.userIDs.Get(key)
}

// HasUserID reports whether the ID of a key is cached.
func (m *Memory) HasUserID(key string) bool {
	_, known := m.userIDs.Get(key)
	return known
}

// KeepUserID caches the ID of a new user, after the commit that made them.
func (m *Memory) KeepUserID(key string, id services.UserID) { m.userIDs.Keep(key, id) }
