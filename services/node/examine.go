package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/dustin/go-humanize"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/sql"
	"tidings/transport"
)

// examineTimeout bounds the examination of one engine. It is longer than the engine's own timeouts, so that the engine's errors
// are shown, and not the end of this timeout.
const examineTimeout = 15 * time.Second

const (
	// Below these limits a node works, but an operator should know what it can serve. The usual limit of a shell is 1,024,
	// which is 24 sockets.
	lowFileLimit       = 8192      // open files; each socket needs one
	lowMemoryBytes     = 512 << 20 // of the control group
	bytesPerSocket     = 20 << 10  // memory of a socket with one subscription: see bench/RESULTS.md
	filesBesideSockets = 1000      // files for connections to the engines, for listeners and for data
)

// Examine checks the settings of a node, its engines and its machine, for an operator. It changes nothing that lasts: it
// leaves no file or table behind, and starts no server. If a node already serves with the same data or addresses, the findings say
// so. It checks everything, whatever it finds, because an operator wants one list. The settings have been checked with the
// command line, so every address has a form that can be tried.
func Examine(ctx context.Context, cfg Config) (found []services.Finding) {
	x := &examination{cfg: cfg}
	x.checkTokens(ctx)
	x.checkAddresses()
	x.checkMachine()
	x.checkDataFolder()
	// The findings have everything that the engines would log.
	quiet := slog.New(slog.DiscardHandler)
	database, done := context.WithTimeout(ctx, examineTimeout)
	defer done()
	found = append(x.found, sql.Examine(database, sql.Config{URL: cfg.DatabaseURL(), Clock: services.SystemClock{}, Log: quiet})...)
	cache, done := context.WithTimeout(ctx, examineTimeout)
	defer done()
	return append(found, redis.Examine(cache, redis.Options{URL: cfg.Redis, DataDir: cfg.Data, Clock: services.SystemClock{}, Log: quiet})...)
}

// examination collects findings in the order in which they are shown. Findings of the engines come from their own packages,
// in the same form.
type examination struct {
	cfg   Config
	found []services.Finding
}

// add appends a finding.
func (x *examination) add(severity services.Severity, subject, text, advice string) {
	x.found = append(x.found, services.Finding{Severity: severity, Subject: subject, Text: text, Advice: advice})
}

// checkTokens checks the keys and the documents that the settings name, by reading them as a node does. A key that cannot be read
// stops a node, and is the most frequent reason why one does not start.
func (x *examination) checkTokens(ctx context.Context) {
	if x.cfg.Development() {
		x.add(services.Warning, "tokens", "no key is configured: this is development mode, which serves loopback only and believes every token", "For production "+transport.KeyNeededAdvice+".")
	} else {
		// The keys are read, and from an address too; the goroutine that would reload them ends with the command.
		_, err := transport.NewIdentity(ctx, transport.IdentityConfig{
			TokenSettings: x.cfg.Tokens, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			err = fmt.Errorf("%s: %w", x.cfg.Tokens.KeyFlag(), err)
		}
		x.addResult("tokens", "the key of "+x.cfg.Tokens.KeyFlag()+" can be used", err, "Look at the file, or the address, and at what it holds.")
		if x.cfg.Tokens.Audience == "" && x.cfg.Tokens.Issuer == "" {
			x.add(services.Warning, "tokens", "neither aud nor iss is checked", "If the key signs tokens for other services too, set --jwt-audience.")
		}
	}
	if x.cfg.Requests.TrustedDocuments != "" {
		_, err := transport.ReadTrustedDocuments(x.cfg.Requests.TrustedDocuments)
		x.addResult("documents", "the trusted documents can be read", err, "Make the manifest again with your client's tools.")
	}
}

// addResult adds the finding of a check: text if it succeeded, else its error. The error names the setting, so the advice need not.
func (x *examination) addResult(subject, text string, err error, advice string) {
	if err != nil {
		x.add(services.Failure, subject, err.Error(), advice)
		return
	}
	x.add(services.Fine, subject, text, "")
}

// checkAddresses checks whether the node could listen on its addresses, by listening for a moment. An address with port 0 is always
// free.
func (x *examination) checkAddresses() {
	for _, at := range []struct{ flag, address string }{{"--listen", x.cfg.Listen}, {"--operations-listen", x.cfg.Operations}} {
		if at.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", at.address)
		if err == nil {
			_ = listener.Close()
		}
		// This is no failure, because tidings doctor is mostly called beside a running node.
		if errors.Is(err, syscall.EADDRINUSE) {
			x.add(services.Warning, "addresses", at.flag+": "+err.Error(), "If a node runs here, this is what it looks like. Otherwise choose another address, or another port.")
			continue
		}
		x.addResult("addresses", at.flag+" "+at.address+" is free", err, "Choose an address of this machine, and a port that this user may open.")
	}
	if !x.cfg.Development() && x.cfg.Operations == "" {
		x.add(services.Warning, "addresses", "neither /metrics, GraphiQL nor the console is served", "Set --operations-listen to an address that only operators reach.")
	}
}

// checkDataFolder checks the data folder of a node whose database is elsewhere. A node makes the folder if it is missing, and a
// private Redis has its socket in it. The folder of a SQLite file is examined with the file.
func (x *examination) checkDataFolder() {
	if x.cfg.Database == "" || x.cfg.Data == "" {
		return
	}
	if _, err := os.Stat(x.cfg.Data); err == nil && !redis.StartsPrivateServer(x.cfg.Redis) {
		return
	}
	err := sql.CheckFolderWritable(x.cfg.Data)
	if err != nil {
		err = fmt.Errorf("--data %s cannot be written: %w", x.cfg.Data, err)
	}
	x.addResult("data", "--data "+x.cfg.Data+" can be written", err, sql.AdviceToWrite)
}

// checkMachine checks the limits of this process and its machine. A limit that the system does not report is not shown. Nothing here
// is a failure: a small node works, and the operator decides.
func (x *examination) checkMachine() {
	// Each socket is a file, so this bounds the sockets of a node before memory does.
	if limit, known := openFilesLimit(); known {
		sockets := max(int64(limit)-filesBesideSockets, 0)
		x.warnIf(limit < lowFileLimit, "machine", fmt.Sprintf("%s open files are allowed: at most %s sockets", humanize.Comma(int64(limit)), humanize.Comma(sockets)), "Raise it (ulimit -n, LimitNOFILE=).")
	}
	x.add(services.Fine, "machine", fmt.Sprintf("%d processors, %s on %s", runtime.NumCPU(), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH), "")
	// If the control group has no limit, the number is close to the greatest possible one.
	if limit, err := memlimit.FromCgroup(); err == nil && limit < 1<<60 {
		x.warnIf(limit < lowMemoryBytes, "machine", fmt.Sprintf("%s of memory are allowed: about %s sockets fit into half of it", humanize.IBytes(limit), humanize.Comma(int64(limit/2/bytesPerSocket))),
			"Give it at least "+humanize.IBytes(lowMemoryBytes)+".")
	}
	if forwarded := os.Getenv("KUBERNETES_SERVICE_HOST"); forwarded != "" && len(x.cfg.Proxies.Trusted) == 0 {
		x.add(services.Warning, "machine", "this runs in Kubernetes, and no proxy is trusted", "Set --trusted-proxies to the network of the ingress, or all clients share the limits of one address.")
	}
}

// warnIf adds a warning if bad is true, else a finding that all is fine. The text is the same for both: the text states a number,
// and the severity judges the number.
func (x *examination) warnIf(bad bool, subject, text, advice string) {
	if bad {
		x.add(services.Warning, subject, text, advice)
		return
	}
	x.add(services.Fine, subject, text, "")
}

// Summary counts the findings of each severity: "9 ok, 2 warnings, 0 failures". All three numbers are there even if they are
// 0, so that a line can be searched for.
func Summary(found []services.Finding) string {
	counts := map[services.Severity]int{}
	for _, finding := range found {
		counts[finding.Severity]++
	}
	var parts []string
	for _, one := range []struct {
		severity services.Severity
		plural   string
	}{{services.Fine, ""}, {services.Warning, "s"}, {services.Failure, "s"}} {
		word := one.severity.String()
		if counts[one.severity] != 1 {
			word += one.plural
		}
		parts = append(parts, fmt.Sprintf("%d %s", counts[one.severity], word))
	}
	return strings.Join(parts, ", ")
}
