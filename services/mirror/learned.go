package mirror

import "tidings/services"

// learned is without what time alone changes.
func (n *noticeMemory) learned(_ []services.UserNumber, sums []uint64) {
	learned := 2 * n.version()
	for i := range sums {
		sums[i] += learned
	}
}

func (h *heads) learned(users []services.UserNumber, sums []uint64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	h.readers.Each(users, func(i int, id services.ConversationID) {
		if known := h.known[id]; known != nil {
			sums[i] += uint64(known.number)
		}
	})
}

func (p *pulled) learned(users []services.UserNumber, sums []uint64) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.readers.Each(users, func(i int, author services.UserNumber) {
		if known := p.authors[author]; known != nil {
			sums[i] += known.sequence()
		}
	})
}

func (s *showMemory) learned(users []services.UserNumber, sums []uint64) {
	if !s.following.Loaded() {
		return
	}
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
