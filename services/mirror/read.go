package mirror

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"tidings/services"
)

// Read fetches posts and people: from memory, what is missing from Redis in one round trip for both kinds, and what
// is missing there from SQL in one query a kind. Deleted posts are answered with Deleted; what never was is not in the
// maps. Without Redis it goes straight to SQL.
func (m *Mirror) Read(ctx context.Context, posts []services.PostID, users []services.UserNumber) (map[services.PostID]services.Post, map[services.UserNumber]services.User, error) {
	return m.read(ctx, posts, users, false)
}

// ReadWithAuthors is Read, with the authors of the posts among the people: those whom neither memory nor the posts' round
// trip has take a second one, and all that are still missing are one query.
func (m *Mirror) ReadWithAuthors(ctx context.Context, posts []services.PostID, users []services.UserNumber) (map[services.PostID]services.Post, map[services.UserNumber]services.User, error) {
	return m.read(ctx, posts, users, true)
}

func (m *Mirror) read(ctx context.Context, posts []services.PostID, users []services.UserNumber, authors bool) (map[services.PostID]services.Post, map[services.UserNumber]services.User, error) {
	foundPosts, missingPosts := m.posts.GetAll(posts)
	foundUsers, missingUsers := m.users.GetAll(users)
	if authors {
		missingUsers = append(missingUsers, m.authorsOf(foundPosts, foundUsers, missingUsers)...)
	}
	if len(missingPosts)+len(missingUsers) == 0 {
		return foundPosts, foundUsers, nil
	}
	missingPosts, missingUsers = m.readCopies(ctx, foundPosts, foundUsers, missingPosts, missingUsers)
	if len(missingPosts) > 0 {
		facts, err := m.facts.Posts(ctx, missingPosts)
		if err != nil {
			return nil, nil, err
		}
		m.posts.Take(foundPosts, facts, nil)
	}
	if authors {
		if more := m.authorsOf(foundPosts, foundUsers, missingUsers); len(more) > 0 {
			_, more = m.readCopies(ctx, nil, foundUsers, nil, more)
			missingUsers = append(missingUsers, more...)
		}
	}
	if len(missingUsers) > 0 {
		facts, err := m.facts.Users(ctx, missingUsers)
		if err != nil {
			return nil, nil, err
		}
		m.users.Take(foundUsers, facts, nil)
	}
	m.copy.add(missingPosts, missingUsers)
	return foundPosts, foundUsers, nil
}

// ReadHosts fetches people for a page that needs its round trips to Redis for itself: from memory, and what is missing there
// from SQL in one query. While SQL does not answer Redis is asked all the same.
func (m *Mirror) ReadHosts(ctx context.Context, users []services.UserNumber) (map[services.UserNumber]services.User, error) {
	found, missing := m.users.GetAll(users)
	if len(missing) == 0 {
		return found, nil
	}
	facts, err := m.facts.Users(ctx, missing)
	if err == nil {
		m.users.Take(found, facts, nil)
		m.copy.add(nil, missing)
		return found, nil
	}
	if _, missing = m.readCopies(ctx, nil, found, nil, missing); len(missing) > 0 {
		return nil, err
	}
	return found, nil
}

// authorsOf adds the authors of posts whom memory has to those found, and answers those whom it has not and nobody misses yet.
func (m *Mirror) authorsOf(posts map[services.PostID]services.Post, found map[services.UserNumber]services.User, missing []services.UserNumber) []services.UserNumber {
	var authors []services.UserNumber
	for _, post := range posts {
		if _, known := found[post.Author]; !known && !post.Deleted && !slices.Contains(missing, post.Author) {
			authors = append(authors, post.Author)
		}
	}
	if len(authors) == 0 {
		return nil
	}
	known, unknown := m.users.GetAll(authors)
	maps.Copy(found, known)
	return unknown
}

// readCopies reads from Redis in one round trip, and answers what is missing there.
func (m *Mirror) readCopies(ctx context.Context, foundPosts map[services.PostID]services.Post, foundUsers map[services.UserNumber]services.User,
	posts []services.PostID, users []services.UserNumber) (missingPosts []services.PostID, missingUsers []services.UserNumber) {
	copiedPosts, copiedUsers, err := m.copies.Copies(ctx, posts, users)
	if err != nil {
		return posts, users
	}
	if len(posts) > 0 {
		posts = m.posts.Take(foundPosts, copiedPosts, posts)
	}
	if len(users) > 0 {
		users = m.users.Take(foundUsers, copiedUsers, users)
	}
	return posts, users
}

// Number finds the number of a user's key; ok is false for one that was never mentioned. Numbers never change, so
// that memory is never wrong about them.
func (m *Mirror) Number(ctx context.Context, key string) (number services.UserNumber, ok bool, err error) {
	if number, ok := m.numbers.Get(key); ok {
		return number, true, nil
	}
	numbers, err := m.Numbers(ctx, []string{key})
	number, ok = numbers[key]
	return number, ok, err
}

// Numbers finds the numbers of users' keys, those that memory has not in one query; keys that were never mentioned are absent.
func (m *Mirror) Numbers(ctx context.Context, keys []string) (map[string]services.UserNumber, error) {
	found, missing := m.numbers.GetAll(keys)
	if len(missing) == 0 {
		return found, nil
	}
	numbers, err := m.facts.UserNumbers(ctx, missing)
	if err != nil {
		return nil, err
	}
	for key, number := range numbers {
		found[key] = number
		m.numbers.Keep(key, number)
	}
	return found, nil
}

// RememberedNumber is the number of a user's key if memory has it.
func (m *Mirror) RememberedNumber(key string) (number services.UserNumber, ok bool) {
	return m.numbers.Get(key)
}

// KnowsNumber says that the number of a key is in memory.
func (m *Mirror) KnowsNumber(key string) bool {
	_, known := m.numbers.Get(key)
	return known
}

// KeepNumber remembers the number that a user was given.
func (m *Mirror) KeepNumber(key string, number services.UserNumber) { m.numbers.Keep(key, number) }

// Keep remembers facts as this node has just written them.
func (m *Mirror) Keep(post services.Post) { m.posts.Keep(post.ID, post) }

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
