package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// The reference of the sockets row: a program that only writes the same bytes to every connection, in one loop per
// processor. It is this program, started again with the argument bareArgument.
const bareArgument = "bare-writer"

// bareWriter writes one prepared frame to every connection when it is triggered.
type bareWriter struct {
	frame []byte
	mu    sync.Mutex
	conns []net.Conn
}

// newBareWriter makes frames of a length in bytes that the client takes for events.
func newBareWriter(length int) *bareWriter {
	text := []byte(`{"id":"1","type":"next","payload":`)
	for len(appendFrame(nil, opText, text, false)) < length-1 {
		text = append(text, '0')
	}
	return &bareWriter{frame: appendFrame(nil, opText, append(text, '}'), false)}
}

// accept takes connections, writes a first frame to each, and keeps them open until the listener is closed.
func (b *bareWriter) accept(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		if _, err := conn.Write(b.frame); err != nil {
			_ = conn.Close()
			continue
		}
		b.mu.Lock()
		b.conns = append(b.conns, conn)
		b.mu.Unlock()
	}
}

// writeAll writes the frame to every connection and drops the closed ones.
func (b *bareWriter) writeAll() (written int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	loops := runtime.GOMAXPROCS(0)
	var group sync.WaitGroup
	good := make([][]net.Conn, loops)
	for loop := range loops {
		group.Go(func() {
			for i := loop; i < len(b.conns); i += loops {
				if _, err := b.conns[i].Write(b.frame); err == nil {
					good[loop] = append(good[loop], b.conns[i])
				} else {
					_ = b.conns[i].Close()
				}
			}
		})
	}
	group.Wait()
	b.conns = b.conns[:0]
	for _, conns := range good {
		b.conns = append(b.conns, conns...)
	}
	return len(b.conns)
}

// runBareWriter serves connections on one address and POST /trigger on another, until it is stopped.
func runBareWriter(address, control string, length int) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	b := newBareWriter(length)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /trigger", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, b.writeAll()) })
	server := &http.Server{Addr: control, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() {
		_ = listener.Close()
		_ = server.Close()
	})
	accepted := make(chan error, 1)
	go func() { accepted <- b.accept(listener) }()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// firstFrame reads the first frame from the bare writer, which has no handshake.
func firstFrame(s *socket, _ int) error {
	opcode, _, err := s.next()
	if err == nil && opcode != opText {
		err = fmt.Errorf("opcode %d", opcode)
	}
	return err
}

// trigger requests one event to everybody from a program, and waits only for the answer to the request.
func trigger(ctx context.Context, control string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+control+"/trigger", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}
