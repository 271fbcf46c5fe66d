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
	crowdNodes       = 3
	crowdSettleLimit = time.Minute      // the goroutines of closed sockets end within this time
	crowdOpenLimit   = 10 * time.Minute // for all sockets to open
)

// crowdState has the number of goroutines and the memory of all nodes together.
type crowdState struct {
	goroutines int
	resident   int64 // bytes
}

// measureCrowd starts the nodes and measures the row.
func (b *bench) measureCrowd(ctx context.Context) (err error) {
	server, err := sqltest.NewDurableServer()
	if err != nil {
		b.report.lines = append(b.report.lines, line{what: "push: " + formatThousands(int64(b.sizes.crowdSockets)) + " sockets", limit: "-", whyAbsent: err.Error()})
		return nil
	}
	defer server.Close()
	url, err := server.Create(ctx, "crowd")
	if err != nil {
		return err
	}
	var nodes []*program
	for i := range crowdNodes {
		at, err := b.newSite("crowd-"+strconv.Itoa(i), crowdDatabase)
		if err != nil {
			return err
		}
		if i == 0 {
			defer func() { err = errors.Join(err, at.deleteRedisData(context.WithoutCancel(ctx))) }()
		}
		node, err := at.start(ctx, "--database", url)
		if err != nil {
			return err
		}
		defer node.stop()
		nodes = append(nodes, node)
	}
	return b.runCrowdRounds(ctx, nodes)
}

// runCrowdRounds opens the crowds' sockets, takes the rounds, closes the sockets, and reports all.
func (b *bench) runCrowdRounds(ctx context.Context, nodes []*program) error {
	each := b.sizes.crowdSockets / len(nodes)
	if most := int(openFiles()) - 500; each > most {
		each = most
		b.report.notes = append(b.report.notes, fmt.Sprintf("Only %d sockets at each node of the crowd: a process may open no more files here.", most))
	}
	people := each * len(nodes)
	b.say("crowd: seeding %s people", formatThousands(int64(people)))
	events := make([]event, people)
	for i := range events {
		events[i] = profileEvent(crowdPerson(i), "Person "+strconv.Itoa(i))
	}
	if err := sendBurst(ctx, nodes[0].api, events); err != nil {
		return err
	}
	if err := nodes[0].api.waitForJobs(ctx); err != nil {
		return err
	}
	before, err := b.stateOf(ctx, nodes)
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(ctx, crowdOpenLimit)
	defer cancel()
	var crowds []crowd
	leave := func() {
		for _, one := range crowds {
			one.stop()
		}
		crowds = nil
	}
	defer leave()
	for i, node := range nodes {
		b.say("crowd: opening %s sockets at node %d of %d", formatThousands(int64(each)), i+1, len(nodes))
		one, err := b.startCrowd(opening, node.address, i*each, each)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, node.tail())
		}
		crowds = append(crowds, one)
	}
	if err := nodes[0].api.waitForJobs(ctx); err != nil {
		return err
	}
	open, err := b.stateOf(ctx, nodes)
	if err != nil {
		return err
	}
	var arrived series
	for round := range b.socketRounds {
		b.say("crowd: announcement %d of %d", round+1, b.socketRounds)
		result, err := announce(ctx, nodes[0].api, crowds, round)
		for try := 1; errors.Is(err, errEarly) && try < volleyTries; try++ {
			result, err = announce(ctx, nodes[0].api, crowds, round)
		}
		if err != nil {
			return err
		}
		arrived = append(arrived, result)
	}
	leave()
	after, err := b.settledState(ctx, nodes, before)
	if err != nil {
		return err
	}
	b.reportCrowd(people, arrived, before, open, after)
	return nil
}

// announce publishes an announcement, and returns how long each socket waited for it from the mutation on.
func announce(ctx context.Context, a *api, crowds []crowd, round int) (sample, error) {
	if err := pause(ctx, volleyPause); err != nil {
		return sample{}, err
	}
	for _, one := range crowds {
		if err := one.expect(ctx); err != nil {
			return sample{}, err
		}
	}
	start := time.Now()
	if err := a.publishToAll(ctx, announcement, round); err != nil {
		return sample{}, err
	}
	var late []time.Duration
	for _, one := range crowds {
		times, err := one.waitForEvents(ctx)
		if err != nil {
			return sample{}, err
		}
		for _, at := range times {
			late = append(late, time.Duration(at-start.UnixNano()))
		}
	}
	slices.Sort(late)
	if late[0] < 0 { // an event of something else came after expect and before the mutation
		return sample{}, errEarly
	}
	return newSample(late, late[len(late)-1]), nil
}

// stateOf reads the goroutines and the memory of the nodes, after the wait b.memoryWait.
func (b *bench) stateOf(ctx context.Context, nodes []*program) (s crowdState, err error) {
	if err := pause(ctx, b.memoryWait); err != nil {
		return s, err
	}
	s.goroutines, err = goroutinesOf(ctx, nodes)
	for _, node := range nodes {
		resident, failed := residentBytes(node.pid())
		s.resident, err = s.resident+resident, errors.Join(err, failed)
	}
	return s, err
}

// settledState waits up to crowdSettleLimit until the nodes have as few goroutines as before, and then returns their state.
func (b *bench) settledState(ctx context.Context, nodes []*program, before crowdState) (crowdState, error) {
	for deadline := time.Now().Add(crowdSettleLimit); time.Now().Before(deadline); {
		now, err := goroutinesOf(ctx, nodes)
		if err != nil {
			return crowdState{}, err
		}
		if now <= before.goroutines {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return crowdState{}, err
		}
	}
	return b.stateOf(ctx, nodes)
}

// goroutinesOf returns the number of goroutines of all nodes, from their /metrics.
func goroutinesOf(ctx context.Context, nodes []*program) (total int, err error) {
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

func (b *bench) reportCrowd(people int, arrived series, before, open, after crowdState) {
	name := "push: " + formatThousands(int64(people)) + " sockets at " + strconv.Itoa(crowdNodes) + " nodes"
	const megabyte = 1 << 20
	megabytes := func(bytes int64) string { return formatFigure(float64(bytes)/megabyte) + " MB" }
	perSocket := float64(open.resident-before.resident) / float64(people) / 1024
	b.report.lines = append(b.report.lines,
		line{what: name + ": memory each", limit: "-", ours: megabytes(open.resident), theirs: "before: " + megabytes(before.resident), value: perSocket, unit: "KB", goal: atMost(9, "<= 9 KB")},
		line{what: name + ": an announcement, from the mutation to all of them: p99", limit: "-", ours: formatRate(arrived) + ", p50 " + formatMilliseconds(arrived.p50()), value: float64(arrived.p99()) / float64(time.Millisecond), unit: "ms"},
		line{
			what: name + ": goroutines after all have closed", limit: "before they opened", ours: fmt.Sprint(after.goroutines), theirs: fmt.Sprint(before.goroutines),
			value: ratio(float64(after.goroutines), float64(before.goroutines)), unit: "x", goal: atMost(1.05, "back to the start (<= 1.05 x)"),
		},
		line{
			what: name + ": memory after all have closed", limit: "before they opened", ours: megabytes(after.resident) + ", open " + megabytes(open.resident), theirs: megabytes(before.resident),
			value: ratio(float64(after.resident), float64(before.resident)), unit: "x", goal: atMost(1.05, "back to the start (<= 1.05 x)"),
		})
	b.report.details = append(b.report.details, detail{what: name, who: "an announcement, from the mutation to all of them", values: arrived})
}
