package mirror

import "tidings/services"

// Learned is how far this node has learned what the badges of users share with others, of those who are watched: the sum of
// the sequences of all that Follow said of them, and of the announcements and dots without what time alone changes.
func (m *Mirror) Learned(users []services.UserNumber) []uint64 {
	sums := make([]uint64, len(users))
	notices := 2 * m.notices.version()
	for i := range sums {
		sums[i] = notices
	}
	m.heads.learned(users, sums)
	m.pulled.learned(users, sums)
	if m.ShowsReady() {
		m.shows.learned(users, sums)
	}
	return sums
}

func (h *heads) learned(users []services.UserNumber, sums []uint64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	h.readers.each(users, func(i int, id services.ConversationID) {
		if known := h.known[id]; known != nil {
			sums[i] += uint64(known.number)
		}
	})
}

func (p *pulled) learned(users []services.UserNumber, sums []uint64) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.readers.each(users, func(i int, author services.UserNumber) {
		if known := p.authors[author]; known != nil {
			sums[i] += known.sequence()
		}
	})
}

func (s *showMemory) learned(users []services.UserNumber, sums []uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.readers.mu.Lock()
	defer s.readers.mu.Unlock()
	for i, user := range users {
		for _, host := range s.readers.shown[user] {
			sums[i] += s.state.hosts.one(host).version
		}
	}
}
