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

// socketClientArgument is the argument with which this program is started again as a client process of the row crowd, which has
// sockets at several nodes. One process may not have enough open files for all sockets, so each node has a client process of its own.
const socketClientArgument = "crowd"

// socketClientUserKey returns the key of the user of socket number i, counted over all client processes.
func socketClientUserKey(i int) string { return "crowd-" + strconv.Itoa(i) }

// runSocketClient opens sockets to an address, for count people from the first one on, and serves a control address until it is
// stopped:
//
//	GET /opened   200 when all sockets are open
//	POST /expect  prepares for one event on each socket
//	GET /arrived  waits until each socket has an event, and answers the times of the events, in nanoseconds since 1970
func runSocketClient(control, address, first, count string) error {
	from, err := strconv.Atoi(first)
	people, failed := strconv.Atoi(count)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	opened := make(chan *socketFleet, 1)
	failure := make(chan error, 1)
	go func() {
		f, err := openFleet(ctx, address, people, subscriptionOpener(address, everySourceSubscription, func(i int) string { return "dev:" + socketClientUserKey(from+i) }))
		if err != nil {
			failure <- err
			stop()
			return
		}
		opened <- f
	}()
	server := &http.Server{Addr: control, Handler: socketClientControlHandler(ctx, opened), ReadHeaderTimeout: 5 * time.Second}
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

// socketClientControlHandler serves the control address. The channel opened yields the fleet once all of its sockets are open.
func socketClientControlHandler(ctx context.Context, opened chan *socketFleet) http.Handler {
	var all <-chan struct{} // closed when each socket has the expected event
	// withFleet serves a path once the fleet is open.
	withFleet := func(serve func(w http.ResponseWriter, f *socketFleet) error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			var f *socketFleet
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
	mux.HandleFunc("GET /opened", withFleet(func(http.ResponseWriter, *socketFleet) error { return nil }))
	mux.HandleFunc("POST /expect", withFleet(func(_ http.ResponseWriter, f *socketFleet) error {
		all = f.expectOneEventPerSocket()
		return nil
	}))
	mux.HandleFunc("GET /arrived", withFleet(func(w http.ResponseWriter, f *socketFleet) error {
		if err := f.waitForEvents(ctx, all); err != nil {
			return err
		}
		times := make([]int64, len(f.sockets))
		for i, s := range f.sockets {
			times[i] = f.timeOrigin.UnixNano() + s.eventNanos.Load()
		}
		return json.NewEncoder(w).Encode(times)
	}))
	return mux
}

// socketClientProcess is a running client process of the row crowd, which has the sockets to one node.
type socketClientProcess struct{ *program }

// startSocketClient starts a client process and waits until all of its sockets are open, or until ctx ends.
func (b *bench) startSocketClient(ctx context.Context, address string, first, count int) (socketClientProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return socketClientProcess{}, err
	}
	p, err := startProgram(ctx, b.dataFolder, "crowd", ".", self, func(port string) []string {
		return []string{socketClientArgument, "127.0.0.1:" + port, address, strconv.Itoa(first), strconv.Itoa(count)}
	}, readyWhenListening)
	if err != nil {
		return socketClientProcess{}, fmt.Errorf("crowd: %w", err)
	}
	for ready := readyWhenAnswering("http://" + p.address + "/opened"); ready(ctx) != nil; {
		select {
		case <-p.done:
			return socketClientProcess{}, fmt.Errorf("crowd: %s", p.outputTail())
		case <-ctx.Done():
			p.stop()
			return socketClientProcess{}, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return socketClientProcess{p}, nil
}

// expectOneEventPerSocket prepares for one event on each socket.
func (c socketClientProcess) expectOneEventPerSocket(ctx context.Context) error {
	return c.sendControlRequest(ctx, http.MethodPost, "/expect", nil)
}

// waitForEventUnixNanos waits until each socket has its event, and returns when each came, in nanoseconds since 1970.
func (c socketClientProcess) waitForEventUnixNanos(ctx context.Context) (times []int64, err error) {
	return times, c.sendControlRequest(ctx, http.MethodGet, "/arrived", &times)
}

// sendControlRequest sends a request to the client's control address, and decodes the answer into `into` unless it is nil.
func (c socketClientProcess) sendControlRequest(ctx context.Context, method, path string, into any) error {
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
		return errors.Join(fmt.Errorf("crowd: %s: %s: %s%s", path, response.Status, text, c.outputTail()), err)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
