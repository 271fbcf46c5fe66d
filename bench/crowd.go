package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// The clients of the crowd row are processes. One process may not have enough open files for all sockets, so each node has a
// client process of its own. It is this program, started again with the argument crowdArgument.
const crowdArgument = "crowd"

func crowdPerson(i int) string { return "crowd-" + strconv.Itoa(i) }

// runCrowd opens sockets to an address, for count people from the first one on, and serves a control address until it is stopped:
//
//	GET /opened   200 when all sockets are open
//	POST /expect  prepares for one event on each socket
//	GET /arrived  waits until each socket has an event, and answers the times of the events, in nanoseconds since 1970
func runCrowd(control, address, first, count string) error {
	from, err := strconv.Atoi(first)
	people, failed := strconv.Atoi(count)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	opened := make(chan *fleet, 1)
	failure := make(chan error, 1)
	go func() {
		f, err := openFleet(ctx, address, people, subscribeTo(address, everySubscription, func(i int) string { return "dev:" + crowdPerson(from+i) }))
		if err != nil {
			failure <- err
			stop()
			return
		}
		opened <- f
	}()
	server := &http.Server{Addr: control, Handler: crowdControl(ctx, opened), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	select {
	case err := <-failure:
		return err
	case f := <-opened:
		f.close()
		return nil
	}
}

// crowdControl serves the control address. The channel opened yields the fleet once all of its sockets are open.
func crowdControl(ctx context.Context, opened chan *fleet) http.Handler {
	var all <-chan struct{} // closed when each socket has the expected event
	// withFleet serves a path once the fleet is open.
	withFleet := func(serve func(w http.ResponseWriter, f *fleet) error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			var f *fleet
			select {
			case f = <-opened:
				opened <- f
			default:
				http.Error(w, "not yet", http.StatusServiceUnavailable)
				return
			}
			if err := serve(w, f); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /opened", withFleet(func(http.ResponseWriter, *fleet) error { return nil }))
	mux.HandleFunc("POST /expect", withFleet(func(_ http.ResponseWriter, f *fleet) error {
		all = f.expect()
		return nil
	}))
	mux.HandleFunc("GET /arrived", withFleet(func(w http.ResponseWriter, f *fleet) error {
		if err := f.wait(ctx, all); err != nil {
			return err
		}
		times := make([]int64, len(f.sockets))
		for i, s := range f.sockets {
			times[i] = f.origin.UnixNano() + s.eventAt.Load()
		}
		return json.NewEncoder(w).Encode(times)
	}))
	return mux
}

// crowd is one client process.
type crowd struct{ *program }

// startCrowd starts a client process and waits until all of its sockets are open, or until ctx ends.
func (b *bench) startCrowd(ctx context.Context, address string, first, count int) (crowd, error) {
	self, err := os.Executable()
	if err != nil {
		return crowd{}, err
	}
	p, err := startProgram(ctx, b.folder, "crowd", ".", self, func(port string) []string {
		return []string{crowdArgument, "127.0.0.1:" + port, address, strconv.Itoa(first), strconv.Itoa(count)}
	}, listens)
	if err != nil {
		return crowd{}, fmt.Errorf("crowd: %w", err)
	}
	for ready := answers("http://" + p.address + "/opened"); ready(ctx) != nil; {
		select {
		case <-p.done:
			return crowd{}, fmt.Errorf("crowd: %s", p.tail())
		case <-ctx.Done():
			p.stop()
			return crowd{}, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return crowd{p}, nil
}

// expect prepares for one event on each socket.
func (c crowd) expect(ctx context.Context) error {
	return c.send(ctx, http.MethodPost, "/expect", nil)
}

// waitForEvents waits for the events, and returns when each came.
func (c crowd) waitForEvents(ctx context.Context) (times []int64, err error) {
	return times, c.send(ctx, http.MethodGet, "/arrived", &times)
}

// send sends a request to the crowd's control address, and decodes the answer into `into` unless it is nil.
func (c crowd) send(ctx context.Context, method, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.address+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(response.Body)
		return errors.Join(fmt.Errorf("crowd: %s: %s: %s%s", path, response.Status, text, c.tail()), err)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
