package devicestest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/tests/eventually"
)

// Service is a push service. A test scripts its answers, and can restart it. The Service fails the test on errors that a real
// push service would not notice: versions that fall, two requests at once for one browser, a topic that changes. mu guards the
// fields below it.
type Service struct {
	t       testing.TB
	public  string // the key that must have signed each message
	address string
	server  *http.Server

	mu        sync.Mutex
	browsers  map[string]*Browser // by path
	strangers map[string]*Browser // by path: keys of a stranger, see AddStranger
	answer    func(w http.ResponseWriter, r *http.Request, m Message) (taken bool)
	got       []Arrival          // the requests since the last Take
	seen      map[string]string  // the newest version that arrived, by path and user
	last      map[string]Message // the last message that each browser got, by path
	topics    map[string]string  // of the last request, by path
	underway  map[string]int     // requests under way, by path
	sizes     map[int]bool       // the lengths of bodies that arrived
	arrived   int                // how many requests, in all
}

// Arrival is a request that arrived. Accepted says that the browser got it.
type Arrival struct {
	Path     string
	Message  Message
	Accepted bool
}

// NewService starts a push service on loopback for messages that a public key signs.
func NewService(t testing.TB, public string) *Service {
	s := &Service{t: t, public: public, browsers: map[string]*Browser{}, strangers: map[string]*Browser{}, seen: map[string]string{}, last: map[string]Message{}, topics: map[string]string{}, underway: map[string]int{}, sizes: map[int]bool{}}
	s.start("127.0.0.1:0")
	t.Cleanup(func() { _ = s.server.Close() })
	return s
}

// start listens at an address, also at one that was just in use.
func (s *Service) start(address string) {
	s.t.Helper()
	var listener net.Listener
	eventually.HoldsWithin(s.t, 10*time.Second, "the push service listens", func() bool {
		var err error
		listener, err = net.Listen("tcp", address)
		return err == nil
	})
	if address != s.address { // Restart must not write the address, because requests read it at the same time
		s.address = listener.Addr().String()
	}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func(server *http.Server) { _ = server.Serve(listener) }(s.server)
}

// Restart closes every connection and listens again.
func (s *Service) Restart() {
	_ = s.server.Close()
	s.start(s.address)
}

// Close closes every connection: from now on no request is answered.
func (s *Service) Close() { _ = s.server.Close() }

// Host returns the address by which devices name the push service.
func (s *Service) Host() string { return s.address }

// Subscribe subscribes a browser under a name.
func (s *Service) Subscribe(name string) *Browser {
	b := NewBrowser("http://" + s.address + "/send/" + name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.browsers["/send/"+name] = b
	return b
}

// errDropped is the error for a message that the browser cannot read.
var errDropped = errors.New("the message is not for the browser at this path")

// AddStranger makes keys of a stranger for the endpoint of a browser. The push service takes messages that are encrypted with them, and the
// browser drops them.
func (s *Service) AddStranger(of *Browser) *Browser {
	b := NewBrowser(of.Endpoint)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strangers[strings.TrimPrefix(of.Endpoint, "http://"+s.address)] = b
	return b
}

// SetAnswer scripts what happens to messages from now on. taken says that the browser gets it; nil takes all.
func (s *Service) SetAnswer(answer func(w http.ResponseWriter, r *http.Request, m Message) (taken bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// SetStatus scripts one status for all.
func (s *Service) SetStatus(status int) {
	s.SetAnswer(func(w http.ResponseWriter, _ *http.Request, _ Message) bool {
		w.WriteHeader(status)
		return status < 300
	})
}

// Take returns the requests that arrived since the last Take.
func (s *Service) Take() []Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	return got
}

// Last is the message that a browser got last; false if it got none.
func (s *Service) Last(name string) (Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, some := s.last["/send/"+name]
	return m, some
}

// Arrived is how many requests arrived.
func (s *Service) Arrived() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived
}

// Sizes are the lengths of the bodies that arrived.
func (s *Service) Sizes() map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.sizes)
}

// Underway is how many requests are under way.
func (s *Service) Underway() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.underway {
		n += one
	}
	return n
}

// arrive checks and records a request, and returns its message and the scripted answer.
func (s *Service) arrive(r *http.Request, body []byte) (m Message, answer func(http.ResponseWriter, *http.Request, Message) bool, err error) {
	s.mu.Lock()
	// Decrypt without the lock: requests of many browsers arrive at once.
	b, other := s.browsers[r.URL.Path], s.strangers[r.URL.Path]
	s.mu.Unlock()
	if b == nil {
		return m, nil, nil
	}
	if m, err = b.Read(r, body, s.public, "http://"+s.address); err != nil {
		if other != nil {
			if _, err := other.Read(r, body, s.public, "http://"+s.address); err == nil {
				return m, nil, errDropped
			}
		}
		return m, nil, fmt.Errorf("%s: %w", r.URL.Path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes[len(body)] = true
	topic := r.Header.Get("Topic")
	if before := s.topics[r.URL.Path]; before != "" && before != topic {
		s.t.Errorf("%s: the topic %s after %s: it does not replace what the browser did not get yet", r.URL.Path, topic, before)
	}
	s.topics[r.URL.Path] = topic
	of := r.URL.Path + " " + m.UserID
	// Versions are compared for each user, because a browser that changed hands begins anew.
	if s.arrived++; m.Version < s.seen[of] {
		s.t.Errorf("%s: the version %s after %s", of, m.Version, s.seen[of])
	}
	if s.seen[of] = m.Version; s.underway[r.URL.Path] > 0 {
		s.t.Errorf("%s: two requests are under way at once", r.URL.Path)
	}
	s.underway[r.URL.Path]++
	return m, s.answer, nil
}

// ServeHTTP takes a message.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender went away
	}
	m, answer, err := s.arrive(r, body)
	// A push service cannot tell whether the browser can read a message, so it takes the message.
	if err == errDropped {
		w.WriteHeader(http.StatusCreated)
		return
	}
	if err != nil {
		s.t.Error(err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if m.Version == "" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	taken := true
	if answer != nil {
		taken = answer(w, r, m)
	} else {
		w.WriteHeader(http.StatusCreated)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underway[r.URL.Path]--
	// A message does not count as taken if its sender went away, because the sender does not know that it was taken.
	taken = taken && r.Context().Err() == nil
	if taken {
		s.last[r.URL.Path] = m
	}
	s.got = append(s.got, Arrival{Path: strings.TrimPrefix(r.URL.Path, "/send/"), Message: m, Accepted: taken})
}
