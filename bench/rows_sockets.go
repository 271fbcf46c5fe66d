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

// spreadLength is the time over which the events of one round are spread, one event for each socket.
const spreadLength = time.Second

// socketResults are the samples of the sockets row.
type socketResults struct {
	ours, stock, bare series
	reading           series // the bare writer that reads the documents before it writes
	spread            series // one event to each socket, evenly over spreadLength
	post              series // from a mutation to all of its author's followers
	extra             series // a second subscription on each socket
}

// measureSockets measures the rows of sockets. Each program is restarted for each round, so that rounds do not share memory.
func (b *bench) measureSockets(ctx context.Context) error {
	if most := int(openFiles()) - 500; b.sockets > most {
		b.report.notes = append(b.report.notes, fmt.Sprintf("Only %d sockets instead of %d: a process may open no more files here.", most, b.sockets))
		b.sockets = most
	}
	var r socketResults
	for round := range b.socketRounds {
		b.say("sockets: round %d of %d", round+1, b.socketRounds)
		length, err := b.measureOurSockets(ctx, &r)
		if err != nil {
			return fmt.Errorf("sockets of Tidings: %w", err)
		}
		if err := b.measureStockSockets(ctx, &r); err != nil {
			return fmt.Errorf("sockets of the gqlgen peer: %w", err)
		}
		if err := b.measureBareSockets(ctx, &r.bare, length); err != nil {
			return fmt.Errorf("sockets of the bare writer: %w", err)
		}
		documents, err := b.writeDocumentKeys()
		if err == nil {
			err = b.measureBareSockets(ctx, &r.reading, length, b.redisURL, documents)
		}
		if err != nil {
			return fmt.Errorf("sockets of the bare writer that reads: %w", err)
		}
	}
	b.reportSockets(&r)
	return nil
}

// withFleet opens the sockets of a program and measures how much memory each of them takes there. It passes the fleet and this number
// of bytes to use.
func (b *bench) withFleet(ctx context.Context, p *program, open openFunc, use func(f *fleet, memory float64) error) error {
	before, beforeErr := residentBytes(p.pid())
	f, err := openFleet(ctx, p.address, b.sockets, open)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p.tail())
	}
	defer f.close()
	if err := pause(ctx, b.memoryWait); err != nil {
		return err
	}
	after, afterErr := residentBytes(p.pid())
	memory := float64(after-before) / float64(b.sockets)
	if beforeErr != nil || afterErr != nil {
		memory = nan
	}
	if err := use(f, memory); err != nil {
		return err
	}
	if lost := f.lost.Load(); lost > 0 {
		return fmt.Errorf("of %d sockets %s\n%s", b.sockets, f.losses(), p.tail())
	}
	return nil
}

func watcherToken(i int) string { return "dev:" + watcher(i) }

// measureOurSockets measures one round of Tidings. It returns how many bytes the frame of an event has.
func (b *bench) measureOurSockets(ctx context.Context, r *socketResults) (length int, err error) {
	server, err := b.startServer(ctx)
	if err != nil {
		return 0, err
	}
	defer server.stop()
	h := &hinter{redis: b.redis, node: node}
	for i := range b.sockets {
		h.users = append(h.users, b.numbers[watcher(i)])
	}
	b.profiles.begin("")
	err = b.withFleet(ctx, server, subscribe(server.address, watcherToken), func(f *fleet, memory float64) error {
		length = f.frame
		b.profiles.begin("sockets") // the opening of the sockets is not in the profile
		result, err := f.measureVolleys(ctx, server.pid(), b.volleys, h.newVolley())
		b.profiles.begin("")
		if err != nil {
			return err
		}
		result.bytesPerEntry = memory
		r.ours = append(r.ours, result)
		if result, err = f.measureSpread(ctx, h, spreadLength); err != nil {
			return err
		}
		r.spread = append(r.spread, result)
		post := volley{fire: func(ctx context.Context) error {
			_, err := server.api.ingest(ctx, []event{publishEvent(star, postBody(len(r.post)))})
			return err
		}}
		if result, err = f.measureVolleys(ctx, server.pid(), 1, post); err != nil {
			return err
		}
		r.post = append(r.post, result)
		if result, err = b.measureExtraSubscription(ctx, server, f); err == nil {
			r.extra = append(r.extra, result)
		}
		return err
	})
	return length, err
}

// measureExtraSubscription subscribes once more on every socket and measures what that costs.
func (b *bench) measureExtraSubscription(ctx context.Context, p *program, f *fleet) (sample, error) {
	if err := pause(ctx, b.memoryWait); err != nil {
		return sample{}, err
	}
	before, beforeErr := residentBytes(p.pid())
	all := f.expect()
	begin := time.Now()
	message := []byte(`{"id":"2","type":"subscribe","payload":{"query":` + strconv.Quote(badgeSubscription) + `}}`)
	for _, s := range f.sockets {
		if err := s.write(opText, message); err != nil {
			return sample{}, err
		}
	}
	if err := f.wait(ctx, all); err != nil {
		return sample{}, err
	}
	result := sample{rate: float64(len(f.sockets)) / time.Since(begin).Seconds(), cpu: -1, bytesPerEntry: nan}
	if err := pause(ctx, b.memoryWait); err != nil {
		return sample{}, err
	}
	after, afterErr := residentBytes(p.pid())
	if beforeErr == nil && afterErr == nil {
		result.bytesPerEntry = float64(after-before) / float64(len(f.sockets))
	}
	return result, nil
}

// measureStockSockets measures one round of stock gqlgen.
func (b *bench) measureStockSockets(ctx context.Context, r *socketResults) error {
	peer, err := b.startGqlgen(ctx)
	if err != nil {
		return err
	}
	defer peer.stop()
	return b.measureTriggeredSockets(ctx, peer, subscribe(peer.address, watcherToken), &r.stock)
}

// measureBareSockets measures one round of the bare writer and adds it to into. length and documents are passed to startBareWriter.
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
	keys := make([]string, b.sockets)
	for i := range keys {
		keys[i] = documentKey(b.numbers[watcher(i)])
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return "", err
	}
	file = filepath.Join(b.folder, "documents.json")
	return file, os.WriteFile(file, text, 0o600)
}

// measureTriggeredSockets measures one round of a program that sends an event to everybody on POST /trigger, and adds it to into.
func (b *bench) measureTriggeredSockets(ctx context.Context, p *program, open openFunc, into *series) error {
	return b.withFleet(ctx, p, open, func(f *fleet, memory float64) error {
		result, err := f.measureVolleys(ctx, p.pid(), b.volleys, volley{fire: func(ctx context.Context) error { return trigger(ctx, p.control) }})
		result.bytesPerEntry = memory
		*into = append(*into, result)
		return err
	})
}

func (b *bench) reportSockets(r *socketResults) {
	count := formatThousands(int64(b.sockets))
	const stock, bare = "stock gqlgen WebSocket transport", "a bare TCP writer of the same bytes"
	atOnce := "push: " + count + " sockets, one event each at once"
	kilobytes := func(s series) string { return formatFigure(s.memory()/1024) + " KB" }
	micros := func(s series) string { return formatFigure(s.cpu()) + " us" }
	p99 := func(s series) float64 { return float64(s.p99()) / float64(time.Millisecond) }
	b.report.lines = append(b.report.lines,
		line{
			what: "push: memory per socket with one subscription, " + count + " sockets", limit: stock, ours: kilobytes(r.ours), theirs: kilobytes(r.stock),
			value: ratio(r.ours.memory(), r.stock.memory()), unit: "x", goal: atMost(0.25, "<= 0.25 x"),
		},
		line{what: "push: memory per socket with one subscription", limit: "-", ours: kilobytes(r.ours), value: r.ours.memory() / 1024, unit: "KB", goal: atMost(9, "<= 9 KB")},
		line{
			what: "push: memory per socket with one subscription", limit: "a bare TCP writer's connection", ours: kilobytes(r.ours), theirs: kilobytes(r.bare),
			value: ratio(r.ours.memory(), r.bare.memory()), unit: "x",
		},
		line{what: "push: memory of an extra subscription", limit: "-", ours: kilobytes(r.extra), value: r.extra.memory() / 1024, unit: "KB", goal: atMost(1, "<= 1 KB")},
		line{
			what: atOnce + ": p99", limit: bare, ours: formatMilliseconds(r.ours.p99()), theirs: formatMilliseconds(r.bare.p99()),
			value: ratio(p99(r.ours), p99(r.bare)), unit: "x", goal: atMost(2, "<= 2 x"),
		},
		line{
			what: atOnce + ": events", limit: stock, ours: formatRateAndCPU(r.ours), theirs: formatRateAndCPU(r.stock),
			value: ratio(r.ours.rate(), r.stock.rate()), unit: "x", goal: atLeast(1, ">= 1 x"),
		},
		line{
			what: atOnce + ": server CPU an event", limit: "the same after a pipelined read of the documents", ours: micros(r.ours), theirs: micros(r.reading),
			value: ratio(r.ours.cpu(), r.reading.cpu()), unit: "x", goal: atMost(1.5, "<= 1.5 x"),
		},
		line{
			what: "push: " + count + " events spread over 1 s: p99", limit: "-", ours: "p50 " + formatMilliseconds(r.spread.p50()),
			value: p99(r.spread), unit: "ms", goal: atMost(50, "<= 50 ms"),
		})
	b.report.details = append(b.report.details,
		detail{what: atOnce, who: "Tidings: hint, read of the document, rendering, frame", values: r.ours},
		detail{what: atOnce, who: "stock gqlgen, event made in the process", values: r.stock},
		detail{what: atOnce, who: "bare TCP writer", values: r.bare},
		detail{what: atOnce, who: "bare TCP writer that reads the documents in pipelines", values: r.reading},
		detail{what: "events spread over 1 s", who: "Tidings", values: r.spread},
		detail{what: "a post by an author whom all " + count + " follow, from the mutation on", who: "Tidings: SQL, fan-out into " + count + " inboxes, push", values: r.post},
		detail{what: "an extra subscription on each socket", who: "Tidings", values: r.extra},
	)
}
