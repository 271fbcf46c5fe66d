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

// PushService is a push service for tests. A test chooses its answers, and can restart it. It fails the test on errors that a real push
// service would not notice: versions that fall, two requests at once for one browser, a topic that changes.
type PushService struct {
	t         testing.TB
	publicKey string // the key that must have signed each message
	address   string
	server    *http.Server

	mu               sync.Mutex          // guards the fields below
	browsers         map[string]*Browser // those that have subscribed, by path
	wrongKeyBrowsers map[string]*Browser // by path: a message for such a browser is taken, and reaches nobody
	// answer is how SetAnswer has requests answered; taken says that the browser gets the message. nil: every message is taken.
	answer           func(w http.ResponseWriter, r *http.Request, m Message) (taken bool)
	newArrivals      []Arrival          // the requests since the last TakeArrivals
	newestVersions   map[string]string  // the newest version that arrived, by path and user
	lastMessages     map[string]Message // the last message that each browser got, by path
	lastTopics       map[string]string  // the header Topic of the last request, by path
	requestsUnderway map[string]int     // requests under way, by path
	bodySizes        map[int]bool       // the lengths of bodies that arrived
	arrivalCount     int                // how many requests, in all
}

// Arrival is a request that arrived. Accepted says that the browser got it.
type Arrival struct {
	BrowserName string
	Message     Message
	Accepted    bool
}

// NewPushService starts a push service on loopback for messages that a public key signs.
func NewPushService(t testing.TB, public string) *PushService {
	s := &PushService{t: t, publicKey: public, browsers: map[string]*Browser{}, wrongKeyBrowsers: map[string]*Browser{}, newestVersions: map[string]string{}, lastMessages: map[string]Message{}, lastTopics: map[string]string{}, requestsUnderway: map[string]int{}, bodySizes: map[int]bool{}}
	s.start("127.0.0.1:0")
	t.Cleanup(func() { _ = s.server.Close() })
	return s
}

// start listens at an address, also at one that was just in use.
func (s *PushService) start(address string) {
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
func (s *PushService) Restart() {
	_ = s.server.Close()
	s.start(s.address)
}

// Close closes every connection: from now on no request is answered.
func (s *PushService) Close() { _ = s.server.Close() }

// Address returns the address by which devices name the push service.
func (s *PushService) Address() string { return s.address }

// Subscribe subscribes a browser under a name.
func (s *PushService) Subscribe(name string) *Browser {
	b := NewBrowser("http://" + s.address + "/send/" + name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.browsers["/send/"+name] = b
	return b
}

// errNotForBrowser is the error for a message that the browser cannot read.
var errNotForBrowser = errors.New("the message is not for the browser at this path")

// AddWrongKeyBrowser makes other keys for the endpoint of a browser, as a stranger could. The push service takes messages that are
// encrypted with these keys, and the browser drops the messages.
func (s *PushService) AddWrongKeyBrowser(of *Browser) *Browser {
	b := NewBrowser(of.Endpoint)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrongKeyBrowsers[strings.TrimPrefix(of.Endpoint, "http://"+s.address)] = b
	return b
}

// SetAnswer sets how the push service answers requests from now on. taken says that the browser gets the message. With nil every
// message is taken.
func (s *PushService) SetAnswer(answer func(w http.ResponseWriter, r *http.Request, m Message) (taken bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// SetAnswerStatus sets one status with which all requests are answered from now on.
func (s *PushService) SetAnswerStatus(status int) {
	s.SetAnswer(func(w http.ResponseWriter, _ *http.Request, _ Message) bool {
		w.WriteHeader(status)
		return status < 300
	})
}

// TakeArrivals returns the requests that arrived since the last call.
func (s *PushService) TakeArrivals() []Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.newArrivals
	s.newArrivals = nil
	return got
}

// LastMessage is the message that a browser got last; false if it got none.
func (s *PushService) LastMessage(name string) (Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, some := s.lastMessages["/send/"+name]
	return m, some
}

// ArrivalCount is how many requests arrived.
func (s *PushService) ArrivalCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrivalCount
}

// BodySizes are the lengths of the bodies that arrived.
func (s *PushService) BodySizes() map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.bodySizes)
}

// RequestsUnderway is how many requests are under way.
func (s *PushService) RequestsUnderway() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.requestsUnderway {
		n += one
	}
	return n
}

// recordArrival checks and records a request, and returns its message and the function that SetAnswer set.
func (s *PushService) recordArrival(r *http.Request, body []byte) (m Message, answer func(http.ResponseWriter, *http.Request, Message) bool, err error) {
	s.mu.Lock()
	// Decrypt without the lock: requests of many browsers arrive at once.
	b, other := s.browsers[r.URL.Path], s.wrongKeyBrowsers[r.URL.Path]
	s.mu.Unlock()
	if b == nil {
		return m, nil, nil
	}
	if m, err = b.ReadRequest(r, body, s.publicKey, "http://"+s.address); err != nil {
		if other != nil {
			if _, err := other.ReadRequest(r, body, s.publicKey, "http://"+s.address); err == nil {
				return m, nil, errNotForBrowser
			}
		}
		return m, nil, fmt.Errorf("%s: %w", r.URL.Path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodySizes[len(body)] = true
	topic := r.Header.Get("Topic")
	if before := s.lastTopics[r.URL.Path]; before != "" && before != topic {
		s.t.Errorf("%s: the topic %s after %s: it does not replace what the browser did not get yet", r.URL.Path, topic, before)
	}
	s.lastTopics[r.URL.Path] = topic
	of := r.URL.Path + " " + m.UserID
	// Versions are compared for each user, because a browser that changed hands begins anew.
	if s.arrivalCount++; m.Version < s.newestVersions[of] {
		s.t.Errorf("%s: the version %s after %s", of, m.Version, s.newestVersions[of])
	}
	if s.newestVersions[of] = m.Version; s.requestsUnderway[r.URL.Path] > 0 {
		s.t.Errorf("%s: two requests are under way at once", r.URL.Path)
	}
	s.requestsUnderway[r.URL.Path]++
	return m, s.answer, nil
}

// ServeHTTP takes a message.
func (s *PushService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender went away
	}
	m, answer, err := s.recordArrival(r, body)
	// A push service cannot tell whether the browser can read a message, so it takes the message.
	if err == errNotForBrowser {
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
	s.requestsUnderway[r.URL.Path]--
	// A message does not count as taken if its sender went away, because the sender does not know that it was taken.
	taken = taken && r.Context().Err() == nil
	if taken {
		s.lastMessages[r.URL.Path] = m
	}
	s.newArrivals = append(s.newArrivals, Arrival{BrowserName: strings.TrimPrefix(r.URL.Path, "/send/"), Message: m, Accepted: taken})
}
