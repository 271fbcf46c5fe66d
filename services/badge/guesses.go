package badge

import (
	"context"
	"sync"

	"tidings/services"
)

// guesses remembers who was answered from SQL, and under which version. Such a version comes from this node's clock
// and is newer than the document that Redis still has: once Redis is back, the document's is raised above it, or else
// clients would take the exact numbers for old.
type guesses struct {
	mu       sync.Mutex
	versions map[services.UserNumber]uint64
}

// maxGuesses bounds the memory. Whoever finds no place is news again with his next change.
const maxGuesses = 100_000

func (g *guesses) note(user services.UserNumber, version uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.versions == nil {
		g.versions = map[services.UserNumber]uint64{}
	}
	if _, known := g.versions[user]; known || len(g.versions) < maxGuesses {
		g.versions[user] = max(version, g.versions[user])
	}
}

func (g *guesses) list() (users []services.UserNumber, versions []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for user, version := range g.versions {
		users, versions = append(users, user), append(versions, version)
	}
	return users, versions
}

// forget drops the guesses that were passed, unless a newer one came meanwhile.
func (g *guesses) forget(users []services.UserNumber, passed map[services.UserNumber]uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, user := range users {
		if g.versions[user] == passed[user] {
			delete(g.versions, user)
		}
	}
}

// PassGuesses raises the documents of those who were answered from SQL and answers how many are done. A document that
// is not there yet waits for its rebuild.
func (s *Service) PassGuesses(ctx context.Context) (int, error) {
	users, versions := s.guesses.list()
	if len(users) == 0 {
		return 0, nil
	}
	passed := make(map[services.UserNumber]uint64, len(users))
	for i, user := range users {
		passed[user] = versions[i]
	}
	done, err := s.fanout.RaiseVersions(ctx, users, versions)
	s.guesses.forget(done, passed)
	return len(done), err
}
