package transport

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// measuredServerEnvVariable is the environment variable that turns this test binary into the clients of BenchmarkSocketMemory. Its value
// is the address of the server.
const measuredServerEnvVariable = "TRANSPORT_TEST_CLIENTS_OF"

const (
	measuredSocketCount = 5000 // the number of sockets that BenchmarkSocketMemory opens
	// rawHandshake is the text of an HTTP request that opens a socket.
	rawHandshake = "GET /graphql HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: " + webSocketSubprotocol + "\r\n\r\n"
)

// rawClientTextFrame is a text frame of a client, with a mask of zeros.
func rawClientTextFrame(text string) []byte {
	frame := []byte{0x81}
	if len(text) < 126 {
		frame = append(frame, 0x80|byte(len(text)))
	} else {
		frame = append(frame, 0x80|126, byte(len(text)>>8), byte(len(text)))
	}
	return append(append(frame, 0, 0, 0, 0), text...)
}

// runMeasuredClients is the client process of BenchmarkSocketMemory. It opens measuredSocketCount sockets to the server at address and
// prints a line. For each line of standard input it adds one subscription to each socket, and prints a line once every subscription has
// delivered an event.
func runMeasuredClients(address string) {
	conns := make([]*bufio.ReadWriter, measuredSocketCount)
	for i := range conns {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			fmt.Println(err)
			return
		}
		conns[i] = bufio.NewReadWriter(bufio.NewReaderSize(conn, 512), bufio.NewWriterSize(conn, 512))
		_, _ = conns[i].WriteString(rawHandshake)
		_ = conns[i].Flush()
		for line := ""; line != "\r\n"; {
			if line, err = conns[i].ReadString('\n'); err != nil {
				fmt.Println(err)
				return
			}
		}
		_, _ = conns[i].Write(rawClientTextFrame(`{"type":"connection_init","payload":{"authorization":"dev:user` + strconv.Itoa(i) + `"}}`))
		_ = conns[i].Flush()
		if err := discardShortFrame(conns[i].Reader); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("ready")
	commands := bufio.NewScanner(os.Stdin)
	for id := 0; commands.Scan(); id++ {
		for _, conn := range conns {
			_, _ = conn.Write(rawClientTextFrame(`{"type":"subscribe","id":"` + strconv.Itoa(id) +
				`","payload":{"query":"subscription Watch { ticks }"}}`))
			_ = conn.Flush()
		}
		for _, conn := range conns {
			for range id + 1 { // an event for each subscription of the connection
				if err := discardShortFrame(conn.Reader); err != nil {
					fmt.Println(err)
					return
				}
			}
		}
		fmt.Println("ready")
	}
}

// discardShortFrame reads and drops one frame of a server. The frame must be a text of at most 125 bytes.
func discardShortFrame(from *bufio.Reader) error {
	var head [2]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return err
	}
	if head[0] != 0x81 || head[1] > 125 {
		return fmt.Errorf("not a short text frame: %x", head)
	}
	_, err := io.CopyN(io.Discard, from, int64(head[1]))
	return err
}

// BenchmarkSocketMemory measures what a socket costs this process: without a subscription, with one, and with
// each further one. The clients are another process.
//
//	go test ./transport -run '^$' -bench SocketMemory -benchtime 1x
func BenchmarkSocketMemory(b *testing.B) {
	identity, err := NewIdentity(b.Context(), IdentityConfig{Development: true})
	if err != nil {
		b.Fatal(err)
	}
	schema := newTestSchema()
	sockets := NewSockets(SocketConfig{Identity: identity, WithWakeConsumer: withWakeConsumer, WakingFields: testWakingFields, Log: discardLog})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{
		Handler:  Handler(Config{Schema: schema, Identity: identity, Sockets: sockets, Log: discardLog}),
		ErrorLog: slog.NewLogLogger(discardLog.Handler(), slog.LevelError),
	}
	go server.Serve(listener)
	defer server.Close()

	clients := exec.Command(os.Args[0])
	clients.Env = append(os.Environ(), measuredServerEnvVariable+"="+listener.Addr().String())
	input, err := clients.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	output, err := clients.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	before := measureMemory(b)
	if err := clients.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		input.Close()
		_ = clients.Wait()
	}()
	lines := bufio.NewScanner(output)
	ready := func() {
		if !lines.Scan() || lines.Text() != "ready" {
			b.Fatalf("clients: %s", lines.Text())
		}
	}
	ready()
	b.ReportMetric(0, "ns/op")
	last := measureMemory(b)
	reportMemoryPerSocket(b, "idle", last, before)
	for round, what := range []string{"first-subscription", "second-subscription", "third-subscription"} {
		fmt.Fprintln(input, "subscribe")
		ticker := time.NewTicker(10 * time.Millisecond)
		for schema.hub.countWatchers() < (round+1)*measuredSocketCount {
			<-ticker.C
		}
		ticker.Stop()
		schema.hub.publish(7)
		ready()
		now := measureMemory(b)
		reportMemoryPerSocket(b, what, now, last)
		last = now
	}
	runtime.KeepAlive(sockets)
}

// memoryBytes is the memory of this process at one moment, in bytes: resident, in use by the heap, and in use by stacks.
type memoryBytes struct{ resident, heap, stacks float64 }

// measureMemory returns the memory of this process after a garbage collection.
func measureMemory(b *testing.B) memoryBytes {
	b.Helper()
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return memoryBytes{
		resident: pages * float64(os.Getpagesize()), heap: float64(stats.HeapInuse), stacks: float64(stats.StackInuse),
	}
}

// reportMemoryPerSocket reports the memory by which two measurements differ, divided by the number of sockets. what names the metric.
func reportMemoryPerSocket(b *testing.B, what string, now, before memoryBytes) {
	b.ReportMetric((now.resident-before.resident)/measuredSocketCount, "B-RSS/"+what)
	b.ReportMetric((now.heap-before.heap)/measuredSocketCount, "B-heap/"+what)
	b.ReportMetric((now.stacks-before.stacks)/measuredSocketCount, "B-stack/"+what)
}

// BenchmarkEvents measures the way of an event from the hub, which sends it to all subscriptions at once, to the clients of a thousand
// sockets. The time includes the reading by the clients.
//
//	go test ./transport -run '^$' -bench Events
func BenchmarkEvents(b *testing.B) {
	const count = 1000
	identity, err := NewIdentity(b.Context(), IdentityConfig{Development: true})
	if err != nil {
		b.Fatal(err)
	}
	schema := newTestSchema()
	sockets := NewSockets(SocketConfig{Identity: identity, WithWakeConsumer: withWakeConsumer, WakingFields: testWakingFields, Log: discardLog})
	server := httptest.NewServer(Handler(Config{Schema: schema, Identity: identity, Sockets: sockets, Log: discardLog}))
	defer server.Close()
	conns := make([]*bufio.ReadWriter, count)
	for i := range conns {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		conns[i] = bufio.NewReadWriter(bufio.NewReaderSize(conn, 512), bufio.NewWriterSize(conn, 512))
		_, _ = conns[i].WriteString(rawHandshake)
		_ = conns[i].Flush()
		for line := ""; line != "\r\n"; {
			if line, err = conns[i].ReadString('\n'); err != nil {
				b.Fatal(err)
			}
		}
		_, _ = conns[i].Write(rawClientTextFrame(`{"type":"connection_init"}`))
		_, _ = conns[i].Write(rawClientTextFrame(`{"type":"subscribe","id":"1","payload":{"query":"subscription { ticks }"}}`))
		_ = conns[i].Flush()
		if err := discardShortFrame(conns[i].Reader); err != nil {
			b.Fatal(err)
		}
	}
	for schema.hub.countWatchers() < count {
		runtime.Gosched()
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		schema.hub.publish(1)
		for _, conn := range conns {
			if err := discardShortFrame(conn.Reader); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/event")
	b.ReportMetric(float64(b.N)*count/b.Elapsed().Seconds(), "events/s")
}
