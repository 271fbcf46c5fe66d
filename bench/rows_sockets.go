package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// eventSpreadDuration is the time over which the events of one round are spread, one event for each socket.
const eventSpreadDuration = time.Second

// socketResults are the samples of the row sockets.
type socketResults struct {
	ours, stockGqlgen, bareWriter series // one event to every socket at once, by program
	bareWriterReadingDocuments    series // the bare writer that reads the documents before it writes
	eventsOverTime                series // one event to each socket, evenly over eventSpreadDuration
	postPushes                    series // the push of a post to all of its author's followers, from the mutation on
	extraSubscription             series // the start of a second subscription on each socket
}

// measureSockets measures the rows of sockets. Each program is restarted for each round, so that rounds do not share memory.
func (b *bench) measureSockets(ctx context.Context) error {
	if most := int(maxOpenFiles()) - 500; b.socketCount > most {
		b.report.notes = append(b.report.notes, fmt.Sprintf("Only %d sockets instead of %d: a process may open no more files here.", most, b.socketCount))
		b.socketCount = most
	}
	var r socketResults
	for round := range b.socketRounds {
		b.printProgress("sockets: round %d of %d", round+1, b.socketRounds)
		length, err := b.measureOurSockets(ctx, &r)
		if err != nil {
			return fmt.Errorf("sockets of Tidings: %w", err)
		}
		if err := b.measureStockGqlgenSockets(ctx, &r); err != nil {
			return fmt.Errorf("sockets of the gqlgen baseline: %w", err)
		}
		if err := b.measureBareSockets(ctx, &r.bareWriter, length); err != nil {
			return fmt.Errorf("sockets of the bare writer: %w", err)
		}
		documents, err := b.writeDocumentKeys()
		if err == nil {
			err = b.measureBareSockets(ctx, &r.bareWriterReadingDocuments, length, b.redisURL, documents)
		}
		if err != nil {
			return fmt.Errorf("sockets of the bare writer that reads: %w", err)
		}
	}
	b.reportSockets(&r)
	return nil
}

// withFleet opens the sockets to a program, subscribes each with open, and measures how much memory of the program each socket takes.
// It passes the fleet and this number of bytes to the function use.
func (b *bench) withFleet(ctx context.Context, p *program, open subscribeFunc, use func(f *socketFleet, memory float64) error) error {
	before, beforeErr := residentBytes(p.pid())
	f, err := openFleet(ctx, p.address, b.socketCount, open)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p.outputTail())
	}
	defer f.close()
	if err := pause(ctx, b.waitBeforeMemoryRead); err != nil {
		return err
	}
	after, afterErr := residentBytes(p.pid())
	memory := float64(after-before) / float64(b.socketCount)
	if beforeErr != nil || afterErr != nil {
		memory = nan
	}
	if err := use(f, memory); err != nil {
		return err
	}
	if lost := f.lostSockets.Load(); lost > 0 {
		return fmt.Errorf("of %d sockets %s\n%s", b.socketCount, f.describeLostSockets(), p.outputTail())
	}
	return nil
}

// watcherToken returns the token of the i-th watcher, the user of the i-th socket.
func watcherToken(i int) string { return "dev:" + watcherKey(i) }

// measureOurSockets measures one round of the row sockets with Tidings. It returns how many bytes the frame of an event has.
func (b *bench) measureOurSockets(ctx context.Context, r *socketResults) (length int, err error) {
	server, err := b.startServer(ctx)
	if err != nil {
		return 0, err
	}
	defer server.stop()
	h := &hintSender{redis: b.redis, nodeName: nodeName}
	for i := range b.socketCount {
		h.users = append(h.users, b.userIDByKey[watcherKey(i)])
	}
	b.profiler.beginMeasurement("")
	err = b.withFleet(ctx, server, badgeSubscriptionOpener(server.address, watcherToken), func(f *socketFleet, memory float64) error {
		length = f.firstFrameBytes
		b.profiler.beginMeasurement("sockets") // the opening of the sockets is not in the profile
		result, err := f.measureBroadcasts(ctx, server.pid(), b.broadcastsPerRound, h.newEventBroadcast())
		b.profiler.beginMeasurement("")
		if err != nil {
			return err
		}
		result.bytesPerSocketOrEntry = memory
		r.ours = append(r.ours, result)
		if result, err = f.measureEventsOverTime(ctx, server.pid(), h, eventSpreadDuration); err != nil {
			return err
		}
		r.eventsOverTime = append(r.eventsOverTime, result)
		post := eventBroadcast{sendEvents: func(ctx context.Context) error {
			_, err := server.api.ingest(ctx, []ingestEvent{publishEvent(starKey, postBody(len(r.postPushes)))})
			return err
		}}
		if result, err = f.measureBroadcasts(ctx, server.pid(), 1, post); err != nil {
			return err
		}
		r.postPushes = append(r.postPushes, result)
		if result, err = b.measureExtraSubscription(ctx, server, f); err == nil {
			r.extraSubscription = append(r.extraSubscription, result)
		}
		return err
	})
	return length, err
}

// measureExtraSubscription subscribes once more on every socket and measures what that costs.
func (b *bench) measureExtraSubscription(ctx context.Context, p *program, f *socketFleet) (sample, error) {
	if err := pause(ctx, b.waitBeforeMemoryRead); err != nil {
		return sample{}, err
	}
	before, beforeErr := residentBytes(p.pid())
	all := f.expectOneEventPerSocket()
	begin := time.Now()
	message := []byte(`{"id":"2","type":"subscribe","payload":{"query":` + strconv.Quote(badgeSubscription) + `}}`)
	for _, s := range f.sockets {
		if err := s.write(opText, message); err != nil {
			return sample{}, err
		}
	}
	if err := f.waitForEvents(ctx, all); err != nil {
		return sample{}, err
	}
	result := sample{ratePerSecond: float64(len(f.sockets)) / time.Since(begin).Seconds(), serverCPUPerAnswer: -1, bytesPerSocketOrEntry: nan}
	if err := pause(ctx, b.waitBeforeMemoryRead); err != nil {
		return sample{}, err
	}
	after, afterErr := residentBytes(p.pid())
	if beforeErr == nil && afterErr == nil {
		result.bytesPerSocketOrEntry = float64(after-before) / float64(len(f.sockets))
	}
	return result, nil
}

// measureStockGqlgenSockets measures one round of the row sockets with the stock gqlgen baseline.
func (b *bench) measureStockGqlgenSockets(ctx context.Context, r *socketResults) error {
	baseline, err := b.startGqlgen(ctx)
	if err != nil {
		return err
	}
	defer baseline.stop()
	return b.measureTriggeredSockets(ctx, baseline, badgeSubscriptionOpener(baseline.address, watcherToken), &r.stockGqlgen)
}

// measureBareSockets measures one round of the row sockets with the bare writer and adds it to into. length and documents are passed to
// startBareWriter.
func (b *bench) measureBareSockets(ctx context.Context, into *series, length int, documents ...string) error {
	writer, err := b.startBareWriter(ctx, length, documents...)
	if err != nil {
		return err
	}
	defer writer.stop()
	return b.measureTriggeredSockets(ctx, writer, readFirstFrame, into)
}

// writeDocumentKeys writes the keys of the watchers' documents to a file, which newDocumentReader reads.
func (b *bench) writeDocumentKeys() (file string, err error) {
	keys := make([]string, b.socketCount)
	for i := range keys {
		keys[i] = documentKey(b.userIDByKey[watcherKey(i)])
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return "", err
	}
	file = filepath.Join(b.dataFolder, "documents.json")
	return file, os.WriteFile(file, text, 0o600)
}

// measureTriggeredSockets measures one round of a program that sends an event to everybody on POST /trigger, and adds it to into.
func (b *bench) measureTriggeredSockets(ctx context.Context, p *program, open subscribeFunc, into *series) error {
	return b.withFleet(ctx, p, open, func(f *socketFleet, memory float64) error {
		result, err := f.measureBroadcasts(ctx, p.pid(), b.broadcastsPerRound, eventBroadcast{sendEvents: func(ctx context.Context) error { return triggerBroadcast(ctx, p.controlAddress) }})
		result.bytesPerSocketOrEntry = memory
		*into = append(*into, result)
		return err
	})
}

// reportSockets adds the results of the row sockets to the report.
func (b *bench) reportSockets(r *socketResults) {
	count := formatThousands(int64(b.socketCount))
	const stock, bare = "stock gqlgen WebSocket transport", "a bare TCP writer of the same bytes"
	atOnce := "push: " + count + " sockets, one event each at once"
	kilobytes := func(s series) string { return formatFigure(s.medianBytesPerSocketOrEntry()/1024) + " KB" }
	micros := func(s series) string { return formatFigure(s.medianServerCPUMicros()) + " us" }
	p99 := func(s series) float64 { return float64(s.medianLatencyP99()) / float64(time.Millisecond) }
	b.report.resultLines = append(b.report.resultLines,
		resultLine{
			measurement: "push: memory per socket with one subscription, " + count + " sockets", reference: stock, ourFigure: kilobytes(r.ours), referenceFigure: kilobytes(r.stockGqlgen),
			value: ratio(r.ours.medianBytesPerSocketOrEntry(), r.stockGqlgen.medianBytesPerSocketOrEntry()), unit: "x", goal: atMost(0.25, "<= 0.25 x"),
		},
		resultLine{measurement: "push: memory per socket with one subscription", reference: "-", ourFigure: kilobytes(r.ours), value: r.ours.medianBytesPerSocketOrEntry() / 1024, unit: "KB", goal: atMost(9, "<= 9 KB")},
		resultLine{
			measurement: "push: memory per socket with one subscription", reference: "a bare TCP writer's connection", ourFigure: kilobytes(r.ours), referenceFigure: kilobytes(r.bareWriter),
			value: ratio(r.ours.medianBytesPerSocketOrEntry(), r.bareWriter.medianBytesPerSocketOrEntry()), unit: "x",
		},
		resultLine{measurement: "push: memory of an extra subscription", reference: "-", ourFigure: kilobytes(r.extraSubscription), value: r.extraSubscription.medianBytesPerSocketOrEntry() / 1024, unit: "KB", goal: atMost(1, "<= 1 KB")},
		resultLine{
			measurement: atOnce + ": p99", reference: bare, ourFigure: formatMilliseconds(r.ours.medianLatencyP99()), referenceFigure: formatMilliseconds(r.bareWriter.medianLatencyP99()),
			value: ratio(p99(r.ours), p99(r.bareWriter)), unit: "x", goal: atMost(2, "<= 2 x"),
		},
		resultLine{
			measurement: atOnce + ": events", reference: stock, ourFigure: formatRateAndCPU(r.ours), referenceFigure: formatRateAndCPU(r.stockGqlgen),
			value: ratio(r.ours.medianRate(), r.stockGqlgen.medianRate()), unit: "x", goal: atLeast(1, ">= 1 x"),
		},
		resultLine{
			measurement: atOnce + ": server CPU an event", reference: "the same after a pipelined read of the documents", ourFigure: micros(r.ours), referenceFigure: micros(r.bareWriterReadingDocuments),
			value: ratio(r.ours.medianServerCPUMicros(), r.bareWriterReadingDocuments.medianServerCPUMicros()), unit: "x", goal: atMost(1.5, "<= 1.5 x"),
		},
		resultLine{
			measurement: "push: " + count + " events spread over 1 s: p99", reference: "-", ourFigure: "p50 " + formatMilliseconds(r.eventsOverTime.medianLatencyP50()),
			value: p99(r.eventsOverTime), unit: "ms", goal: atMost(50, "<= 50 ms"),
		})
	b.report.detailLines = append(b.report.detailLines,
		detailLine{measurement: atOnce, label: "Tidings: hint, read of the document, rendering, frame", results: r.ours},
		detailLine{measurement: atOnce, label: "stock gqlgen, event made in the process", results: r.stockGqlgen},
		detailLine{measurement: atOnce, label: "bare TCP writer", results: r.bareWriter},
		detailLine{measurement: atOnce, label: "bare TCP writer that reads the documents in pipelines", results: r.bareWriterReadingDocuments},
		detailLine{measurement: "events spread over 1 s", label: "Tidings", results: r.eventsOverTime},
		detailLine{measurement: "a post by an author whom all " + count + " follow, from the mutation on", label: "Tidings: SQL, fan-out into " + count + " inboxes, push", results: r.postPushes},
		detailLine{measurement: "an extra subscription on each socket", label: "Tidings", results: r.extraSubscription},
	)
}
