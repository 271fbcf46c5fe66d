package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The load generator keeps N connections busy, each with one request at a time (a closed loop). It implements just enough of
// HTTP/1.1, because it shares the processors with the servers: complete requests are built in advance, and only the status, the
// length and the first bytes of an answer are read.

// answerTimeout is how long an answer may take after the end of the load.
const answerTimeout = 10 * time.Second

// loadTarget is a server and the requests that a load sends to it, one after another.
type loadTarget struct {
	address  string
	pid      int      // the process of the server, whose processor time is measured
	requests [][]byte // complete HTTP requests
}

// newLoadTarget returns a target with one HTTP request for each token, all with the same query.
func newLoadTarget(address string, pid int, query string, tokens []string) loadTarget {
	body := `{"query":` + strconv.Quote(query) + `}`
	t := loadTarget{address: address, pid: pid}
	for _, token := range tokens {
		t.requests = append(t.requests, []byte("POST /graphql HTTP/1.1\r\nHost: "+address+"\r\nContent-Type: application/json\r\nAccept: application/json\r\nAuthorization: Bearer "+
			token+"\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body))
	}
	return t
}

// load sends requests over a number of connections for a length of time, and returns a sample of the answers. An answer that is not
// 200 with data ends the load with an error.
func (t loadTarget) load(ctx context.Context, connections int, length time.Duration) (sample, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before, cpuErr := processorTime(t.pid)
	ownBefore, ownErr := processorTime(os.Getpid())
	start := time.Now()
	latencies, errs := make([][]time.Duration, connections), make([]error, connections)
	var group sync.WaitGroup
	for i := range connections {
		group.Go(func() {
			latencies[i], errs[i] = t.loadConnection(ctx, i, start.Add(length))
			if errs[i] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	took := time.Since(start)
	after, err := processorTime(t.pid)
	cpuErr = errors.Join(cpuErr, err)
	own, err := processorTime(os.Getpid())
	ownErr = errors.Join(ownErr, err)
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return sample{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return sample{}, err
	}
	all := slices.Concat(latencies...)
	if len(all) == 0 {
		return sample{}, fmt.Errorf("%s: no answer in %v", t.address, length)
	}
	slices.Sort(all)
	result := newSample(all, took)
	if cpuErr == nil {
		result.serverCPUPerAnswer = (after - before) / time.Duration(len(all))
	}
	if ownErr == nil {
		result.clientCPUPerAnswer = (own - ownBefore) / time.Duration(len(all))
	}
	return result, nil
}

// loadConnection sends requests over one connection until the deadline, from the request with the number first on. It returns the
// latencies.
func (t loadTarget) loadConnection(ctx context.Context, first int, deadline time.Time) (latencies []time.Duration, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	reader := bufio.NewReaderSize(conn, 16<<10)
	latencies = make([]time.Duration, 0, 1<<14)
	if err := conn.SetDeadline(deadline.Add(answerTimeout)); err != nil {
		return nil, cmp.Or(ctx.Err(), err) // the connection is closed when ctx ends
	}
	sent := time.Now()
	for turn := first; sent.Before(deadline); turn++ {
		if _, err = conn.Write(t.requests[turn%len(t.requests)]); err == nil {
			err = readAnswer(reader)
		}
		if ctx.Err() != nil {
			return latencies, ctx.Err()
		}
		if err != nil {
			return latencies, fmt.Errorf("%s: %w", t.address, err)
		}
		now := time.Now()
		latencies, sent = append(latencies, now.Sub(sent)), now
	}
	return latencies, nil
}

// goodAnswerPrefix is the beginning of an answer with data and without errors; any other answer is an error.
var goodAnswerPrefix = []byte(`{"data":{`)

// readAnswer reads one HTTP answer. It is an error if the status is not 200 or the body does not begin with goodAnswerPrefix.
func readAnswer(reader *bufio.Reader) error {
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return err
	}
	problem := ""
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
		problem = strings.TrimSpace(string(line))
	}
	length, err := readHeaders(reader)
	if err != nil {
		return err
	}
	chunked := length < 0
	if chunked {
		if length, err = readChunkLength(reader); err != nil {
			return err
		}
	}
	head, err := reader.Peek(min(length, len(goodAnswerPrefix)))
	if err != nil {
		return err
	}
	if problem != "" || !bytes.Equal(head, goodAnswerPrefix) {
		body := make([]byte, min(length, 500))
		_, err := io.ReadFull(reader, body)
		return errors.Join(fmt.Errorf("the answer is no data: %s %s", problem, body), err)
	}
	if !chunked {
		_, err = reader.Discard(length)
		return err
	}
	for length > 0 && err == nil {
		if _, err = reader.Discard(length + len("\r\n")); err == nil {
			length, err = readChunkLength(reader)
		}
	}
	if err == nil {
		_, err = reader.Discard(len("\r\n"))
	}
	return err
}

// readHeaders reads the headers and returns Content-Length, or -1 if the body comes in chunks.
func readHeaders(reader *bufio.Reader) (length int, err error) {
	length = -2
	const name, chunked = "content-length:", "transfer-encoding: chunked"
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		if len(line) > len(name) && bytes.EqualFold(line[:len(name)], []byte(name)) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(name):]))); err != nil {
				return 0, err
			}
		} else if bytes.EqualFold(line, []byte(chunked)) {
			length = -1
		}
	}
	if length < -1 {
		return 0, errors.New("the answer does not say how long it is")
	}
	return length, nil
}

// readChunkLength reads the line before a chunk of a body, and returns the length of the chunk: 0 after the last one.
func readChunkLength(reader *bufio.Reader) (int, error) {
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	length, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
	return int(length), err
}

// newSample makes a sample of the sorted latencies of answers or events, all of which came in the time took.
func newSample(sorted []time.Duration, took time.Duration) sample {
	return sample{
		ratePerSecond: float64(len(sorted)) / took.Seconds(), latencyP50: percentile(sorted, 50), latencyP99: percentile(sorted, 99), serverCPUPerAnswer: -1, bytesPerSocketOrEntry: nan,
	}
}
