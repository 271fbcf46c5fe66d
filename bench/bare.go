package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// bareWriterArgument is the argument with which this program is started again as the bare writer: the program that Tidings is
// compared with in the row of pushes to sockets. It only writes the same bytes to every connection, in one loop per processor. If it
// is given badge documents in Redis, it reads them first, because a server that pushes data from Redis has to read the data.
const bareWriterArgument = "bare-writer"

// documentsPerPipeline is the number of documents that the bare writer reads in one pipeline: as many as in a batch of Tidings.
const documentsPerPipeline = 256

// bareFrameWriter writes one prepared WebSocket frame to every connection when it is triggered.
type bareFrameWriter struct {
	frame     []byte          // what every connection gets at each trigger
	documents *documentReader // reads the documents before each write; nil: none are read
	mu        sync.Mutex      // guards conns
	conns     []net.Conn      // the open connections
}

// documentReader reads badge documents from Redis for the bare writer, and does nothing with them.
type documentReader struct {
	redis               *redis.Client // the Redis that has the documents
	keys                []string      // of the documents
	firstDocumentFields []string      // the names of the fields in the first document
}

// newDocumentReader connects to Redis. The file holds the keys of the documents as a JSON array.
func newDocumentReader(ctx context.Context, url, file string) (*documentReader, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.ContextTimeoutEnabled = true
	d := &documentReader{redis: redis.NewClient(options)}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &d.keys)
	}
	if err == nil && len(d.keys) == 0 {
		err = fmt.Errorf("%s names no documents", file)
	}
	if err == nil {
		d.firstDocumentFields, err = d.redis.HKeys(ctx, d.keys[0]).Result()
	}
	if err == nil && len(d.firstDocumentFields) == 0 {
		err = fmt.Errorf("no document %s in Redis", d.keys[0])
	}
	if err != nil {
		return nil, errors.Join(err, d.redis.Close())
	}
	return d, nil
}

// readAndDiscard reads count documents in one pipeline, from number first on. After the last document it continues with the first
// one. It does not parse them, because the bare writer does only the work that every server must do.
func (d *documentReader) readAndDiscard(ctx context.Context, first, count int) error {
	pipe := d.redis.Pipeline()
	for i := range count {
		_ = pipe.Process(ctx, redis.NewRawCmd(ctx, "HGETALL", d.keys[(first+i)%len(d.keys)])) // it only queues
	}
	_, err := pipe.Exec(ctx)
	return err
}

// newBareFrameWriter makes a writer whose frame is length bytes long. The client of the benchmark takes the frame for an event.
func newBareFrameWriter(length int) *bareFrameWriter {
	text := []byte(`{"id":"1","type":"next","payload":`)
	for len(appendFrame(nil, opText, text, false)) < length-1 {
		text = append(text, '0')
	}
	return &bareFrameWriter{frame: appendFrame(nil, opText, append(text, '}'), false)}
}

// accept takes connections until the listener is closed, and returns the listener's error. It writes a first frame to each
// connection and keeps it in conns, where it stays open.
func (b *bareFrameWriter) accept(listener net.Listener) error {
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

// writeFrameToAll writes the frame to every connection, drops those that fail, and returns how many remain. Each processor has a
// loop over a part of the connections. If there are documents, the loop reads one for each connection of a batch before it writes
// to the batch.
func (b *bareFrameWriter) writeFrameToAll(ctx context.Context) (written int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	loops := runtime.GOMAXPROCS(0)
	var group errgroup.Group
	good := make([][]net.Conn, loops)
	part := (len(b.conns) + loops - 1) / loops
	for loop := range loops {
		first := min(loop*part, len(b.conns))
		mine := b.conns[first:min(first+part, len(b.conns))]
		group.Go(func() error {
			for batch := range slices.Chunk(mine, documentsPerPipeline) {
				if b.documents != nil {
					if err := b.documents.readAndDiscard(ctx, first, len(batch)); err != nil {
						return err
					}
					first += len(batch)
				}
				for _, conn := range batch {
					if _, err := conn.Write(b.frame); err == nil {
						good[loop] = append(good[loop], conn)
					} else {
						_ = conn.Close()
					}
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	b.conns = slices.Concat(good...)
	return len(b.conns), nil
}

// runBareWriter serves connections on one address and POST /trigger on another, until it is stopped. documents is empty, or has
// the URL of Redis and the file for newDocumentReader.
func runBareWriter(address, control string, length int, documents ...string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := newBareFrameWriter(length)
	if len(documents) == 2 {
		reader, err := newDocumentReader(ctx, documents[0], documents[1])
		if err != nil {
			return err
		}
		defer reader.redis.Close()
		b.documents = reader
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /trigger", func(w http.ResponseWriter, r *http.Request) {
		written, err := b.writeFrameToAll(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, written)
	})
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

// readFirstFrame reads the first frame from the bare writer, which has no handshake.
func readFirstFrame(s *socket, _ int) error {
	opcode, _, err := s.readFrame()
	if err == nil && opcode != opText {
		err = fmt.Errorf("opcode %d", opcode)
	}
	return err
}

// triggerBroadcast asks a program, at its control address, to send one event to all of its connections. It waits only for the
// answer to the request.
func triggerBroadcast(ctx context.Context, control string) error {
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
