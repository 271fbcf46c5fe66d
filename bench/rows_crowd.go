package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/services/sql/sqltest"
)

// The row of a crowd: three nodes on one PostgreSQL have more sockets together than one process may open. An announcement goes to all
// of them. Then they close, and the nodes must return to the goroutines and the memory that they had before.
const (
	multiNodeCount          = 3                // how many nodes there are
	goroutinesSettleTimeout = time.Minute      // the goroutines of closed sockets end within this time
	socketsOpenTimeout      = 10 * time.Minute // for all sockets to open
)

// totalNodeUsage has the number of goroutines and the memory of all nodes together.
type totalNodeUsage struct {
	goroutines  int
	memoryBytes int64 // resident memory
}

// measureMultiNodeSockets starts several nodes on one PostgreSQL and measures the row of a crowd.
func (b *bench) measureMultiNodeSockets(ctx context.Context) (err error) {
	server, err := sqltest.NewDurableServer()
	if err != nil {
		b.report.resultLines = append(b.report.resultLines, resultLine{measurement: "push: " + formatThousands(int64(b.sizes.multiNodeSockets)) + " sockets", reference: "-", whyAbsent: err.Error()})
		return nil
	}
	defer server.Close()
	url, err := server.CreateDatabase(ctx, "crowd")
	if err != nil {
		return err
	}
	var nodes []*program
	for i := range multiNodeCount {
		at, failure := b.newInstallation("crowd-"+strconv.Itoa(i), multiNodeRedisDB)
		if failure != nil {
			return failure
		}
		if i == 0 { // the deferred function sets the result err
			defer func() { err = errors.Join(err, at.deleteRedisData(context.WithoutCancel(ctx))) }()
		}
		node, failure := at.start(ctx, "--database", url)
		if failure != nil {
			return failure
		}
		defer node.stop()
		nodes = append(nodes, node)
	}
	return b.runMultiNodeRounds(ctx, nodes)
}

// runMultiNodeRounds opens the sockets of the row, measures its rounds, closes the sockets, and adds the results to the report.
func (b *bench) runMultiNodeRounds(ctx context.Context, nodes []*program) error {
	each := (b.sizes.multiNodeSockets + len(nodes) - 1) / len(nodes) // at least as many as wanted
	if most := int(maxOpenFiles()) - 500; each > most {
		each = most
		b.report.notes = append(b.report.notes, fmt.Sprintf("Only %d sockets at each node of the crowd: a process may open no more files here.", most))
	}
	people := each * len(nodes)
	b.printProgress("crowd: seeding %s people", formatThousands(int64(people)))
	events := make([]ingestEvent, people)
	for i := range events {
		events[i] = profileEvent(socketClientUserKey(i), "Person "+strconv.Itoa(i))
	}
	if err := sendBurst(ctx, nodes[0].api, events); err != nil {
		return err
	}
	if err := nodes[0].api.waitForJobs(ctx); err != nil {
		return err
	}
	before, err := b.readTotalNodeUsage(ctx, nodes)
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(ctx, socketsOpenTimeout)
	defer cancel()
	var crowds []socketClientProcess
	leave := func() {
		for _, one := range crowds {
			one.stop()
		}
		crowds = nil
	}
	defer leave()
	for i, node := range nodes {
		b.printProgress("crowd: opening %s sockets at node %d of %d", formatThousands(int64(each)), i+1, len(nodes))
		one, err := b.startSocketClient(opening, node.address, i*each, each)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, node.outputTail())
		}
		crowds = append(crowds, one)
	}
	if err := nodes[0].api.waitForJobs(ctx); err != nil {
		return err
	}
	open, err := b.readTotalNodeUsage(ctx, nodes)
	if err != nil {
		return err
	}
	var arrived series
	for round := range b.socketRounds {
		b.printProgress("crowd: round %d of %d", round+1, b.socketRounds) // this name begins a profile
		result, err := measureAnnouncementPush(ctx, nodes, crowds, round)
		for try := 1; errors.Is(err, errEarlyEvent) && try < maxBroadcastTries; try++ {
			result, err = measureAnnouncementPush(ctx, nodes, crowds, round)
		}
		if err != nil {
			return err
		}
		arrived = append(arrived, result)
	}
	b.profiler.beginMeasurement("")
	leave()
	after, err := b.waitForSettledNodeUsage(ctx, nodes, before)
	if err != nil {
		return err
	}
	b.reportMultiNodeSockets(people, arrived, before, open, after)
	return nil
}

// measureAnnouncementPush publishes an announcement at the first node, and returns how long each socket of all nodes waited for it from
// the mutation on, and the nodes' processor time for each socket.
func measureAnnouncementPush(ctx context.Context, nodes []*program, crowds []socketClientProcess, round int) (sample, error) {
	if err := pause(ctx, pauseBeforeBroadcast); err != nil {
		return sample{}, err
	}
	for _, one := range crowds {
		if err := one.expectOneEventPerSocket(ctx); err != nil {
			return sample{}, err
		}
	}
	timers := make([]func(n int) time.Duration, len(nodes))
	for i, node := range nodes {
		timers[i] = startCPUTimer(node.pid())
	}
	start := time.Now()
	if err := nodes[0].api.publishToAll(ctx, announcementKind, round); err != nil {
		return sample{}, err
	}
	var late []time.Duration
	for _, one := range crowds {
		times, err := one.waitForEventUnixNanos(ctx)
		if err != nil {
			return sample{}, err
		}
		for _, at := range times {
			late = append(late, time.Duration(at-start.UnixNano()))
		}
	}
	var cpu time.Duration
	for _, each := range timers {
		cpu += each(len(late))
	}
	slices.Sort(late)
	if late[0] < 0 { // an event that the announcement did not cause came before the mutation
		return sample{}, errEarlyEvent
	}
	return newSample(late, late[len(late)-1]).withServerCPU(cpu), nil
}

// readTotalNodeUsage reads the goroutines and the memory of the nodes, after the wait b.waitBeforeMemoryRead.
func (b *bench) readTotalNodeUsage(ctx context.Context, nodes []*program) (s totalNodeUsage, err error) {
	if err := pause(ctx, b.waitBeforeMemoryRead); err != nil {
		return s, err
	}
	s.goroutines, err = totalGoroutines(ctx, nodes)
	for _, node := range nodes {
		resident, failed := residentBytes(node.pid())
		s.memoryBytes, err = s.memoryBytes+resident, errors.Join(err, failed)
	}
	return s, err
}

// waitForSettledNodeUsage waits up to goroutinesSettleTimeout until the nodes have as few goroutines as before, and then returns
// their usage.
func (b *bench) waitForSettledNodeUsage(ctx context.Context, nodes []*program, before totalNodeUsage) (totalNodeUsage, error) {
	for deadline := time.Now().Add(goroutinesSettleTimeout); time.Now().Before(deadline); {
		now, err := totalGoroutines(ctx, nodes)
		if err != nil {
			return totalNodeUsage{}, err
		}
		if now <= before.goroutines {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return totalNodeUsage{}, err
		}
	}
	return b.readTotalNodeUsage(ctx, nodes)
}

// totalGoroutines returns the number of goroutines of all nodes, from their /metrics.
func totalGoroutines(ctx context.Context, nodes []*program) (total int, err error) {
	for _, node := range nodes {
		number, err := readMetric(ctx, node.address, "go_goroutines")
		if err != nil {
			return 0, err
		}
		total += int(number)
	}
	return total, nil
}

// readMetric reads the value of a metric without labels from a node's /metrics.
func readMetric(ctx context.Context, address, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), name+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("%s: %s has no %s", address, response.Status, name), lines.Err())
}

// reportMultiNodeSockets reports the row of a crowd. before, open and after are the usage before the sockets were opened, while they were
// open, and after they were closed.
func (b *bench) reportMultiNodeSockets(people int, arrived series, before, open, after totalNodeUsage) {
	name := "push: " + formatThousands(int64(people)) + " sockets at " + strconv.Itoa(multiNodeCount) + " nodes"
	const megabyte = 1 << 20
	megabytes := func(bytes int64) string { return formatFigure(float64(bytes)/megabyte) + " MB" }
	perSocket := float64(open.memoryBytes-before.memoryBytes) / float64(people) / 1024
	b.report.resultLines = append(b.report.resultLines,
		resultLine{measurement: name + ": memory each", reference: "-", ourFigure: megabytes(open.memoryBytes), referenceFigure: "before: " + megabytes(before.memoryBytes), value: perSocket, unit: "KB", goal: atMost(9, "<= 9 KB")},
		resultLine{measurement: name + ": an announcement, from the mutation to all of them: p99", reference: "-", ourFigure: formatRateAndCPU(arrived) + ", p50 " + formatMilliseconds(arrived.medianLatencyP50()), value: float64(arrived.medianLatencyP99()) / float64(time.Millisecond), unit: "ms"},
		resultLine{
			measurement: name + ": goroutines after all have closed", reference: "before they opened", ourFigure: fmt.Sprint(after.goroutines), referenceFigure: fmt.Sprint(before.goroutines),
			value: ratio(float64(after.goroutines), float64(before.goroutines)), unit: "x", goal: atMost(1.05, "back to the start (<= 1.05 x)"),
		},
		resultLine{
			measurement: name + ": memory after all have closed", reference: "before they opened", ourFigure: megabytes(after.memoryBytes) + ", open " + megabytes(open.memoryBytes), referenceFigure: megabytes(before.memoryBytes),
			value: ratio(float64(after.memoryBytes), float64(before.memoryBytes)), unit: "x", goal: atMost(1.05, "back to the start (<= 1.05 x)"),
		})
	b.report.detailLines = append(b.report.detailLines, detailLine{measurement: name, label: "an announcement, from the mutation to all of them", results: arrived})
}
