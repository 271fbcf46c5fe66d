package transport

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/tests/eventually"
)

// After a request that the HTTP server answered, the front answers the next ones on the same connection. It may be the one after the
// next: a client that is quick sends it before the server has looked whether there is one.
func TestHandedConnectionsReturn(t *testing.T) {
	f := newFronted(t, false, nil)
	returned := 0
	for _, one := range frontCases {
		if one.quick {
			continue
		}
		conn := must(net.Dial("tcp", f.at))
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		reader := bufio.NewReader(conn)
		for range 3 { // and so again and again
			_, _ = io.WriteString(conn, one.text) // an error shows in the answer
			if answer := f.read(reader, 1)[0]; answer == "no answer" || strings.Contains(strings.SplitN(answer, "\n", 2)[0], " true") {
				break // the HTTP server ended the connection
			}
			before, tries := f.schema.answered.Load(), 0
			for ; f.schema.answered.Load() == before && tries < 50; tries++ {
				_, _ = io.WriteString(conn, raw(query("{ who }")))
				if answer := f.read(reader, 1)[0]; !strings.HasSuffix(answer, `{"data":{"who":"alice@"}}`) {
					t.Errorf("after %s: %s", one.name, answer)
				}
			}
			if tries == 50 {
				t.Errorf("after %s the front answered none of %d plain requests", one.name, tries)
			}
			returned++
		}
		_ = conn.Close()
	}
	if returned < 60 {
		t.Errorf("only %d connections returned", returned)
	}
}

// What follows a handed request at once, or in pieces, is neither lost nor answered twice, wherever the pieces end.
func TestRequestsBehindAHandedOne(t *testing.T) {
	f := newFronted(t, false, nil)
	mutation, plain, get := raw(query(`mutation { set(text: "a") }`)), raw(query("{ who }")), raw("", "GET /graphql?query={hello} HTTP/1.1", "-Content-Length")
	for name, requests := range map[string][]string{
		"plain": {mutation, plain}, "handed": {mutation, mutation, plain}, "handed by another way": {get, mutation, get, plain, get},
		"a long one": {mutation, raw(query("{ hello }" + strings.Repeat(" ", 9<<10))), plain},
	} {
		text := strings.Join(requests, "")
		want := f.send(f.plain, len(requests), text)
		first := len(requests[0])
		for _, pieces := range [][]int{{}, {first}, {first + 1}, {first + 2}, {first + 3}, {first + 4}, {first - 1, first + 1}, {first + 5, len(text) - 1}, {1, 2, 3}} {
			if got := f.inPieces(text, len(requests), pieces); !slices.Equal(got, want) {
				t.Errorf("%s, cut at %v:\n%s\nwant\n%s", name, pieces, got, want)
			}
		}
	}
}

// inPieces sends a text that is cut at places, each piece once the server has had time to read the one before it.
func (f *fronted) inPieces(text string, count int, places []int) []string {
	f.Helper()
	conn := must(net.Dial("tcp", f.at))
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	done := make(chan struct{})
	go func() {
		defer close(done)
		from := 0
		for _, place := range append(places, len(text)) {
			_, _ = io.WriteString(conn, text[from:place]) // an error shows in the answers
			from = place
			time.Sleep(2 * time.Millisecond) // no condition shows from outside that a piece was read; without the pause the pieces are one
		}
	}()
	answers := f.read(bufio.NewReader(conn), count)
	<-done
	return answers
}

// Connections that go back and forth when the server ends are all closed, and none is served afterwards.
func TestHandedConnectionsEndWithTheServer(t *testing.T) {
	for _, end := range []func(f *fronted) error{
		func(f *fronted) error { return f.front.Close() },
		func(f *fronted) error { f.front.Drain(0); return f.front.Shutdown(f.Context()) },
	} {
		f := newFronted(t, false, nil)
		var clients sync.WaitGroup
		begun := make(chan struct{}, 16)
		for i := range 16 {
			requests := []string{raw(query(`mutation { set(text: "a") }`)), raw(query("{ who }"))}
			clients.Go(func() {
				conn := must(net.Dial("tcp", f.at))
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
				k := &kept{conn, bufio.NewReader(conn)}
				for n := i; ; n++ {
					last, err := k.ask(requests[n%2])
					if n == i+10 {
						begun <- struct{}{}
					}
					if last || err != nil {
						if n < i+10 {
							t.Errorf("the connection ended after %d requests: %v", n-i, err)
							begun <- struct{}{}
						}
						return
					}
				}
			})
		}
		for range 16 {
			<-begun
		}
		if err := end(f); err != nil {
			t.Error(err)
		}
		clients.Wait()
		eventually.Holds(t, "no connection is left", func() bool {
			f.front.mu.Lock()
			defer f.front.mu.Unlock()
			return len(f.front.conns)+f.front.handed == 0
		})
	}
}
