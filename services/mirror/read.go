package mirror

import (
	"context"
	"strconv"

	"tidings/services"
)

// Read fetches posts and people: from memory, what is missing from Redis in one round trip for both kinds, and what
// is missing there from SQL in one query a kind. Deleted posts are answered with Deleted; what never was is not in the
// maps. Without Redis it goes straight to SQL.
func (m *Mirror) Read(ctx context.Context, posts []services.PostID, users []services.UserNumber) (map[services.PostID]services.Post, map[services.UserNumber]services.User, error) {
	foundPosts, missingPosts := m.posts.many(posts)
	foundUsers, missingUsers := m.users.many(users)
	if len(missingPosts)+len(missingUsers) == 0 {
		return foundPosts, foundUsers, nil
	}
	if copiedPosts, copiedUsers, err := m.copies.Copies(ctx, missingPosts, missingUsers); err == nil {
		missingPosts = m.posts.take(foundPosts, copiedPosts, missingPosts)
		missingUsers = m.users.take(foundUsers, copiedUsers, missingUsers)
	}
	if len(missingPosts)+len(missingUsers) == 0 {
		return foundPosts, foundUsers, nil
	}
	factPosts, factUsers, err := m.readFacts(ctx, missingPosts, missingUsers)
	if err != nil {
		return nil, nil, err
	}
	m.posts.take(foundPosts, factPosts, nil)
	m.users.take(foundUsers, factUsers, nil)
	if err := m.copies.PutCopies(ctx, values(factPosts), values(factUsers)); err != nil {
		m.log.Debug("copies were not written to Redis", "error", err)
	}
	return foundPosts, foundUsers, nil
}

func (m *Mirror) readFacts(ctx context.Context, posts []services.PostID, users []services.UserNumber) (foundPosts map[services.PostID]services.Post, foundUsers map[services.UserNumber]services.User, err error) {
	if len(posts) > 0 {
		if foundPosts, err = m.facts.Posts(ctx, posts); err != nil {
			return nil, nil, err
		}
	}
	if len(users) > 0 {
		if foundUsers, err = m.facts.Users(ctx, users); err != nil {
			return nil, nil, err
		}
	}
	return foundPosts, foundUsers, nil
}

// Number finds the number of a user's key; ok is false for one that was never mentioned. Numbers never change, so
// that memory is never wrong about them.
func (m *Mirror) Number(ctx context.Context, key string) (number services.UserNumber, ok bool, err error) {
	if number, ok := m.numbers.one(key); ok {
		return number, true, nil
	}
	numbers, err := m.facts.UserNumbers(ctx, []string{key})
	if err != nil {
		return 0, false, err
	}
	if number, ok = numbers[key]; ok {
		m.numbers.keep(key, number)
	}
	return number, ok, nil
}

// KeepNumber remembers the number that a user was given.
func (m *Mirror) KeepNumber(key string, number services.UserNumber) { m.numbers.keep(key, number) }

// Keep remembers facts as this node has just written them.
func (m *Mirror) Keep(post services.Post) { m.posts.keep(post.ID, post) }

// ParseUserNumber reads a number as UserNumberText prints it.
func ParseUserNumber(text string) (services.UserNumber, error) {
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, services.Errorf(services.Invalid, "%s is not a user number", services.Quote(text))
	}
	return services.UserNumber(number), nil
}

// UserNumberText prints a number for the log's and the jobs' keys.
func UserNumberText(user services.UserNumber) string { return strconv.FormatUint(uint64(user), 10) }

func values[K comparable, V any](m map[K]V) []V {
	list := make([]V, 0, len(m))
	for _, value := range m {
		list = append(list, value)
	}
	return list
}
