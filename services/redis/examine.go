package redis

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services"
)

// The limits beyond which Examine reports a fault.
const (
	clockTolerance      = time.Second           // between the clocks of Redis and of this machine; at 2 s a node stops taking requests
	slowAnswerThreshold = 20 * time.Millisecond // of an answer to one command; a badge query waits for one or two answers
)

// probeLifetime is how long the keys of an examination stay. A node writes the same keys each second, so they are not deleted.
const probeLifetime = time.Minute

// Examine checks the Redis of the options for an operator. It starts no server, and changes nothing but one probe key on each
// master, which it writes to see whether the master takes writes. The keys expire.
func Examine(ctx context.Context, options Options) []services.Finding {
	options = options.withDefaults()
	x := &examination{}
	_, missing := exec.LookPath(serverProgram)
	// The examination starts no server of its own: it only checks whether the program is installed.
	switch options.URL {
	case modeAuto, modePrivate:
		switch {
		case missing == nil:
			x.add(services.Fine, "this process starts a redis-server of its own", "")
		case options.URL == modePrivate:
			x.add(services.Failure, "there is no redis-server in PATH", "Install Redis, or set --redis (REDIS_URL).")
		default:
			x.add(services.Warning, "there is no redis-server in PATH: an embedded Redis is used, which is slower under load", "Install Redis, or set --redis (REDIS_URL).")
		}
	case modeEmbedded:
		x.add(services.Warning, "the embedded Redis is slower under load", "Use it for trials and tests; otherwise set --redis (REDIS_URL).")
	default:
		x.examineServer(ctx, options)
	}
	return x.found
}

// StartsPrivateServer reports whether a node with this address starts a redis-server of its own.
func StartsPrivateServer(url string) bool {
	_, missing := exec.LookPath(serverProgram)
	return missing == nil && (url == modeAuto || url == modePrivate)
}

// examination collects findings; masters are examined concurrently.
type examination struct {
	mu    sync.Mutex // guards found
	found []services.Finding
}

// add adds one finding; advice is "" where there is nothing to do.
func (x *examination) add(severity services.Severity, text, advice string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.found = append(x.found, services.Finding{Severity: severity, Subject: "redis", Text: text, Advice: advice})
}

// examineServer examines a Redis that a URL names. An error that stops a check may be the fault that the operator looks for, so
// it becomes a finding.
func (x *examination) examineServer(ctx context.Context, options Options) {
	// dial connects lazily: only the ping below finds an absent server.
	c, at, err := dial(ctx, options)
	defer func() { _ = c.Close() }() // an error of Close does not matter here
	if err == nil {
		if err = c.Ping(ctx); err != nil {
			err = openError(err, at.name())
		}
	}
	if err != nil {
		x.add(services.Failure, err.Error(), "Look at --redis (REDIS_URL), and whether this machine reaches the server.")
		return
	}
	if err := c.EachMaster(ctx, x.examineMaster); err != nil {
		x.add(services.Failure, MapError(err).Error(), "Give the user of the URL the right to INFO and TIME.")
		return
	}
	if _, err := c.writeProbes(ctx, probeLifetime); err != nil {
		x.add(services.Failure, "it refuses writes: it is full, a replica, or cannot save", "Look at maxmemory, at its role, and at the space on its disk.")
	}
}

// examineMaster examines one master.
func (x *examination) examineMaster(ctx context.Context, master *redis.Client) error {
	begun := time.Now()
	now, err := master.Time(ctx).Result()
	if err != nil {
		return err
	}
	took := time.Since(begun)
	text, err := master.Info(ctx).Result()
	if err != nil {
		return err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	addr := master.Options().Addr
	x.add(services.Fine, fmt.Sprintf("%s: version %s, answers in %s", addr, info["redis_version"], took.Round(10*time.Microsecond)), "")
	if took > slowAnswerThreshold {
		x.add(services.Warning, addr+" answers slowly", "Place it beside the nodes: a badge query waits for one or two answers.")
	}
	// Redis read its clock about in the middle of the round trip.
	if ahead := begun.Add(took / 2).Sub(now).Abs(); ahead > clockTolerance+took {
		x.add(services.Warning, fmt.Sprintf("%s: its clock and this machine's differ by %s", addr, ahead.Round(time.Millisecond)), "Run an NTP client on both.")
	}
	if policy := info["maxmemory_policy"]; policy != "noeviction" {
		x.add(services.Warning, fmt.Sprintf("%s: maxmemory-policy is %s", addr, policy), "Set noeviction: evicted data has to be read from SQL again, at the worst moment.")
	}
	most, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
	// 80 % leaves room for the data that arrives while the operator reads this. Without a limit (0) there is nothing to compare
	// with.
	if used, _ := strconv.ParseInt(info["used_memory"], 10, 64); most > 0 && used > most/10*8 {
		x.add(services.Warning, fmt.Sprintf("%s: %d %% of its memory is in use", addr, used*100/most), "Give it more memory: once it is full, counts are read from SQL and are STALE.")
	}
	if info["aof_enabled"] == "1" {
		x.add(services.Warning, addr+": appendonly is on", "Turn it off: everything in it can be rebuilt from SQL, and writing it costs time.")
	}
	return nil
}
