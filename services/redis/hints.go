package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services"
	"tidings/services/trace"
)

// The constants are the format of messages, and the times of the connection. Reconciliation finds the change of a lost hint
// within a second, so a silence of three seconds costs only a delay.
const (
	hintFormatByte  = 1    // the first byte of a message
	causeFormatByte = 2    // begins a message with a trace.Cause: its length, its text and a message without a cause follow
	hintsPerMessage = 4096 // the most hints of one message, so that it has less than 64 KB
	// hintPingInterval is the pause between two pings.
	hintPingInterval = time.Second
	maxHintSilence   = 3 * time.Second // without any message, even a ping's answer, the connection counts as dead
	// After a lost connection the first pause is firstReconnectPause. Each failure doubles it, up to longestReconnectPause.
	firstReconnectPause   = 20 * time.Millisecond
	longestReconnectPause = 500 * time.Millisecond // between two tries to connect again
	channelsPerConnection = 2                      // what a node subscribes to: its own channel and the changelog's
)

// Hint says that a user's document now has a Version: the document half of the version of the badges, in microseconds. It is not
// state: it may be lost, late or repeated, and its receiver reads the document.
type Hint struct {
	User    services.UserID
	Version uint64
}

// hintReceivers are the receivers of this process: hints for its own node reach them without Redis.
type hintReceivers struct {
	mu sync.RWMutex // guards nextReceiverID and receivers
	// nextReceiverID is the number of the next receiver. Numbers are never used again, so that remove removes its own receiver alone.
	nextReceiverID int
	receivers      map[int]func([]Hint, trace.Cause) // by their numbers
}

// add adds a receiver until remove is called.
func (h *hintReceivers) add(receive func([]Hint, trace.Cause)) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.receivers == nil {
		h.receivers = map[int]func([]Hint, trace.Cause){}
	}
	// Receivers are known by a number, because functions cannot be compared.
	id := h.nextReceiverID
	h.nextReceiverID++
	h.receivers[id] = receive
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.receivers, id)
	}
}

// deliver calls the receivers without the lock, so that one of them may be removed meanwhile.
func (h *hintReceivers) deliver(hints []Hint, cause trace.Cause) {
	h.mu.RLock()
	receivers := slices.Collect(maps.Values(h.receivers))
	h.mu.RUnlock()
	for _, receive := range receivers {
		receive(hints, cause)
	}
}

// PublishHints notifies each node which of its users' documents have changed. This node's own hints are delivered before it
// returns, even if Redis is unavailable; the hints for other nodes take one round trip together. The embedded Redis has no other
// nodes: all hints are delivered here. The error is UNAVAILABLE and may be ignored: a hint may be lost.
func (c *Client) PublishHints(ctx context.Context, byNode map[string][]Hint) error {
	cause := trace.CauseOf(ctx)
	messages := map[string][]Hint{}
	for node, hints := range byNode {
		switch {
		case len(hints) == 0:
		case node == c.nodeID || c.mode == modeEmbedded:
			c.hints.deliver(hints, cause)
		default:
			messages[node] = hints
		}
	}
	// Most users are online only on the node that publishes: then Redis is not asked at all.
	if len(messages) == 0 {
		return nil
	}
	_, err := c.Pipeline(ctx, func(p redis.Pipeliner) {
		for node, hints := range messages {
			for part := range slices.Chunk(hints, hintsPerMessage) {
				p.Publish(ctx, hintChannel(node), withCause(cause, encodeHints(part)))
			}
		}
	})
	if err != nil {
		return fmt.Errorf("publish hints: %w", err)
	}
	return nil
}

// encodeHints prints hints as pairs of varints: a user's ID of up to 5 bytes, and a version of 8.
func encodeHints(hints []Hint) []byte {
	message := append(make([]byte, 0, 1+13*len(hints)), hintFormatByte)
	for _, hint := range hints {
		message = binary.AppendUvarint(message, uint64(hint.User))
		message = binary.AppendUvarint(message, hint.Version)
	}
	return message
}

// withCause puts a cause (the span in which the documents were changed) before a message. Without a cause, as whenever no spans are
// recorded, the message stays as it is, and nodes of older versions understand it.
func withCause(cause trace.Cause, message []byte) []byte {
	text := cause.Text()
	if text == "" {
		return message
	}
	return append(append([]byte{causeFormatByte, byte(len(text))}, text...), message...)
}

// cutCause splits a message of withCause into its cause and the hints.
func cutCause(message string) (cause trace.Cause, rest string) {
	// A message without a cause stays as it is. So does a message whose cause is cut off, which decodeHints refuses.
	if len(message) < 2 || message[0] != causeFormatByte || len(message) < 2+int(message[1]) {
		return trace.Cause{}, message
	}
	end := 2 + int(message[1])
	return trace.ParseCause(message[2:end]), message[end:]
}

// decodeHints reads the output of encodeHints. It returns false for a message of another version or another program.
func decodeHints(message string) ([]Hint, bool) {
	if len(message) == 0 || message[0] != hintFormatByte {
		return nil, false
	}
	var hints []Hint
	// A varint of no or of too many bytes gives a length of 0 or less: the message is cut off or not ours.
	for rest := []byte(message[1:]); len(rest) > 0; {
		user, a := binary.Uvarint(rest)
		if a <= 0 || user > uint64(^services.UserID(0)) {
			return nil, false
		}
		n, b := binary.Uvarint(rest[a:])
		if b <= 0 {
			return nil, false
		}
		hints = append(hints, Hint{User: services.UserID(user), Version: n})
		rest = rest[a+b:]
	}
	return hints, true
}

// QueueChangelogHint queues a hint to other nodes that the changelog has grown. It never waits: RunHints sends the hint, and merges
// several at once into one. Like every hint it may be lost.
func (c *Client) QueueChangelogHint() {
	services.Signal(c.changelogGrown)
}

// runChangelogHints sends the hints of QueueChangelogHint until ctx ends.
func (c *Client) runChangelogHints(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changelogGrown:
			if err := c.redis.Publish(ctx, changelogChannel, c.nodeID).Err(); err != nil && ctx.Err() == nil {
				c.log.Debug("the hint of new changelog entries was not published; other nodes find them without it", "error", err)
			}
		}
	}
}

// HintReceiver takes the hints for a node. Its functions may be called by several goroutines at once and must pass on their input
// without waiting: until a function returns, nothing more is received, and a publisher in this process waits for it. If it takes more
// than 3 seconds, the connection counts as dead: another is made, and Resync is called.
type HintReceiver struct {
	DocumentsChanged func(hints []Hint, cause trace.Cause) // documents of users have changed
	ChangelogGrown   func()                                // another node has appended to the changelog
	Resync           func()                                // after every subscription, also the first: hints may have been lost before it
}

// RunHints receives the hints for this node, and sends the hints of QueueChangelogHint, until ctx ends or the Client is closed, and
// then returns nil. It has a connection of its own and reconnects until Redis is back.
func (c *Client) RunHints(ctx context.Context, receiver HintReceiver) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The end of ctx and the end of the Client both end the loop.
	defer context.AfterFunc(c.ctx, cancel)()
	defer c.hints.add(receiver.DocumentsChanged)()
	// There are no hints from others: the embedded Redis has no other nodes, and a node without an ID has no channel. Resync is
	// still called, as after every subscription.
	if c.mode == modeEmbedded || c.nodeID == "" {
		receiver.Resync()
		<-ctx.Done()
		return nil
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	defer cancel()
	sending.Go(func() { c.runChangelogHints(ctx) })
	pause := firstReconnectPause
	for ctx.Err() == nil {
		subscribed, err := c.listen(ctx, receiver)
		if ctx.Err() != nil {
			return nil
		}
		if subscribed {
			pause = firstReconnectPause
		}
		c.log.Warn("the connection for hints is lost: until it is back, reconciliation finds the changes", "error", err, "pause", pause)
		_ = services.Sleep(ctx, pause) // the loop ends with ctx
		// The pause is half a second at most: reconciliation, which stands in for hints meanwhile, comes each second.
		pause = min(2*pause, longestReconnectPause)
	}
	return nil
}

// listen runs one connection to its end. It returns whether the connection was ever subscribed, and how it ended. It does not use
// go-redis' channel of messages, because that channel hides the answers to pings: without them a network that swallows
// everything is not noticed.
func (c *Client) listen(ctx context.Context, receiver HintReceiver) (subscribed bool, err error) {
	subscription := c.redis.Subscribe(ctx, hintChannel(c.nodeID), changelogChannel)
	defer subscription.Close()
	watching, stop := context.WithCancel(ctx)
	var heard atomic.Int64 // nanoseconds from start until the last message came or was handled
	start := time.Now()
	var watch sync.WaitGroup
	// This goroutine closes a connection that is silent for too long. It ends before listen returns, so that none is left.
	watch.Go(func() {
		defer subscription.Close() // unblocks Receive, which ignores its context
		watchSubscription(watching, subscription, func() time.Duration { return time.Since(start) - time.Duration(heard.Load()) })
	})
	defer watch.Wait()
	defer stop()
	for {
		message, err := subscription.Receive(ctx)
		if err != nil {
			return subscribed, err
		}
		heard.Store(int64(time.Since(start)))
		switch message := message.(type) {
		case *redis.Subscription:
			// Redis confirms each channel. After the last confirmation the connection receives everything.
			if subscribed = message.Count == channelsPerConnection; subscribed {
				receiver.Resync()
			}
		case *redis.Message:
			if message.Channel == changelogChannel {
				// This node's own entries are in its memory already.
				if message.Payload != c.nodeID {
					receiver.ChangelogGrown()
				}
				break
			}
			cause, rest := cutCause(message.Payload)
			hints, ok := decodeHints(rest)
			if !ok {
				c.log.Warn("a hint in a format that this version does not know", "bytes", len(message.Payload))
				continue
			}
			receiver.DocumentsChanged(hints, cause)
		}
		heard.Store(int64(time.Since(start)))
	}
}

// watchSubscription pings until the connection has been silent for too long, or ctx ends. A network that swallows
// everything closes nothing: only the missing answers show it.
func watchSubscription(ctx context.Context, subscription *redis.PubSub, silence func() time.Duration) {
	ticker := time.NewTicker(hintPingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if silence() > maxHintSilence {
				return
			}
			// A ping that cannot be sent needs no error handling: the silence that follows is noticed.
			_ = subscription.Ping(ctx)
		}
	}
}
