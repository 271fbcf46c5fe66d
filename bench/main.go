// Package main measures Tidings against peers and limits on the same machine, in the same run, and writes the table.
//
// Programs take turns, round by round, on the same Redis data, and give the same answers, which is checked first; figures are
// medians. Every program that the bench starts has a time limit and ends with the bench. A row that cannot be measured says why
// in the table; anything else that fails ends the run with an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	resultsFile      = "bench/RESULTS.md"
	followsFile      = "../shared/data/" + goalGraph               // the default of --follows
	quickFollowsFile = "../shared/data/follows-twitch-engb.csv.gz" // the default of --follows with --quick
)

// rowNames are the values that --only accepts.
var rowNames = []string{"badge", "feed", "operations", "sockets", "crowd", "import", "import-posts", "every", "million", "conversations", "group", "recipient", "locks", "publish", "fanout", "huge", "rebuild", "mixed", "webhooks", "burst", "writes", "start", "board", "liveday", "everyone", "scripts"}

// longRow takes minutes even with --quick, which therefore leaves it out unless --only names it.
const longRow = "everyone"

// options are the flags.
type options struct {
	quick, keep              bool    // small and short; keep the folder with the logs and the data
	chartsOnly               bool    // only draw the charts again from the results
	rounds                   int     // how often each program is measured
	seconds                  float64 // of a turn
	connections              int     // at a time, of the load generator
	sockets                  int     // of the row sockets
	mercuriusProcesses       int
	only                     []string // the rows to measure
	followsPath, resultsPath string
	profilesFolder           string // for profiles of our server; "" for none

	readers      int           // how many are made for each entry of followCounts
	volleys      int           // in a round
	socketRounds int           // rounds of the row sockets
	importRounds int           // rounds of the imports
	memoryWait   time.Duration // the wait before the memory of sockets is read: Tidings gives memory back some seconds after a rush
	sizes        dataSizes     // the sizes of the rows' data
	limit        time.Duration // of the whole run
}

func main() {
	if len(os.Args) >= 5 && os.Args[1] == bareArgument {
		length, err := strconv.Atoi(os.Args[4])
		if err == nil {
			err = runBareWriter(os.Args[2], os.Args[3], length, os.Args[5:]...)
		}
		exit(err)
	}
	if len(os.Args) >= 4 && os.Args[1] == bareServerArgument {
		exit(runBareServer(os.Args[2], os.Args[3], os.Args[4:]...))
	}
	if len(os.Args) == 6 && os.Args[1] == crowdArgument {
		exit(runCrowd(os.Args[2], os.Args[3], os.Args[4], os.Args[5]))
	}
	opts, err := parseOptions(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, opts.limit, fmt.Errorf("the run took longer than %v", opts.limit))
	defer cancel()
	exit(run(ctx, opts, os.Stdout, os.Stderr))
}

// exit ends the program; with an error it prints the error and the status is not 0.
func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// parseOptions reads the flags. --quick changes the defaults of the other flags.
func parseOptions(args []string, out io.Writer) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	only := flags.String("only", strings.Join(rowNames, ","), "which rows to measure")
	flags.BoolVar(&o.quick, "quick", false, "small and short, to see that everything works: the figures say nothing, and the results' file is left alone")
	flags.BoolVar(&o.keep, "keep", false, "keep the folder with the logs and the data, and say where it is")
	flags.BoolVar(&o.chartsOnly, "charts", false, "measure nothing: draw the charts again from the results' file")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each program takes its turn")
	flags.Float64Var(&o.seconds, "seconds", 4, "how long a turn takes")
	flags.IntVar(&o.connections, "connections", 32, "how many connections ask at a time")
	flags.IntVar(&o.sockets, "sockets", 10_000, "how many sockets are open at a time")
	flags.IntVar(&o.mercuriusProcesses, "mercurius-processes", 1, "how many processes the Mercurius peer has")
	flags.StringVar(&o.followsPath, "follows", followsFile, "the `file` to import: rows of two people who follow each other")
	flags.StringVar(&o.profilesFolder, "profiles", "", "a `folder` for a profile of our server in the busiest second of each row; no results are written, because profiling takes time")
	flags.StringVar(&o.resultsPath, "results", resultsFile, "the `file` to write; - writes none")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if o.profilesFolder != "" {
		o.resultsPath = "-"
	}
	o.readers, o.volleys, o.limit, o.sizes = 16, 5, time.Hour, wholeDataSizes
	o.memoryWait = 15 * time.Second
	o.socketRounds, o.importRounds = min(o.rounds, 3), min(o.rounds, 3)
	if o.quick {
		o.readers, o.volleys, o.limit, o.socketRounds, o.importRounds, o.sizes = 2, 2, 10*time.Minute, 1, 1, quickDataSizes
		o.memoryWait = time.Second
		set := func(name string, change func()) {
			if !given[name] {
				change()
			}
		}
		set("rounds", func() { o.rounds = 1 })
		set("seconds", func() { o.seconds = 0.5 })
		set("connections", func() { o.connections = 8 })
		set("sockets", func() { o.sockets = 300 })
		set("follows", func() { o.followsPath = quickFollowsFile })
		set("results", func() { o.resultsPath = "-" })
		set("only", func() { *only = strings.Replace(*only, ","+longRow, "", 1) })
	}
	for _, name := range strings.Split(*only, ",") {
		if !slices.Contains(rowNames, name) {
			return o, fmt.Errorf("--only %s: known are %s", name, strings.Join(rowNames, ", "))
		}
		o.only = append(o.only, name)
	}
	return o, errors.Join(
		checkRange("rounds", float64(o.rounds), 1, 100), checkRange("seconds", o.seconds, 0.1, 600),
		checkRange("connections", float64(o.connections), 1, 1000), checkRange("sockets", float64(o.sockets), 1, 100_000),
		checkRange("mercurius-processes", float64(o.mercuriusProcesses), 1, 64))
}

// checkRange returns an error if the value of a flag is out of range.
func checkRange(name string, value, least, most float64) error {
	if math.IsNaN(value) || value < least || value > most {
		return fmt.Errorf("--%s %v: %v to %v are allowed", name, value, least, most)
	}
	return nil
}

// bench is one run.
type bench struct {
	options
	folder    string // for data and logs
	redis     *redis.Client
	redisPID  int
	redisURL  string
	usersFile string            // the seeded users, for the peers
	numbers   map[string]uint32 // key -> user number
	scripts   scriptTimes       // the times of Lua scripts so far
	report    *report
	profiles  *profiler
	progress  io.Writer // where messages about the progress go
}

// say prints a message about the progress.
func (b *bench) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	b.profiles.readProgress(text)
	fmt.Fprintln(b.progress, "bench: "+text)
}

// wants reports whether a row is to be measured.
func (b *bench) wants(row string) bool { return slices.Contains(b.only, row) }

// run measures everything and writes the report. An error discards all measurements: half a table would mislead.
func run(ctx context.Context, opts options, out, progress io.Writer) (err error) {
	if _, err := os.Stat("bench/peers"); err != nil {
		return fmt.Errorf("run it from the project's root: %w", err)
	}
	say := func(format string, args ...any) { fmt.Fprintf(progress, "bench: "+format+"\n", args...) }
	if opts.chartsOnly {
		return writeCharts(filepath.FromSlash(opts.resultsPath), chartsFolder, say)
	}
	folder, err := os.MkdirTemp("", "tidings-bench-")
	if err != nil {
		return err
	}
	b := &bench{options: opts, folder: folder, progress: progress, profiles: newProfiler(opts.profilesFolder)}
	defer func() {
		if opts.keep {
			b.say("logs and data are in %s", folder)
		} else {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	b.report = &report{machine: describeMachine(ctx), command: commandLine(), date: time.Now(), quick: opts.quick, notes: notes(opts)}
	b.say("building")
	if err := build(ctx); err != nil {
		return err
	}
	if err := b.measure(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	if err := b.profiles.write(ctx, commandLine()); err != nil {
		return err
	}
	if err := b.report.print(out); err != nil || opts.resultsPath == "-" {
		return err
	}
	file, err := os.Create(filepath.FromSlash(opts.resultsPath))
	if err != nil {
		return err
	}
	if err := errors.Join(b.report.writeMarkdown(file), file.Close()); err != nil || opts.quick || opts.resultsPath != resultsFile {
		return err
	}
	return writeCharts(file.Name(), chartsFolder, say)
}

// commandLine returns the command that started this run and would repeat it.
func commandLine() string {
	return strings.Join(append([]string{"go run ./bench"}, os.Args[1:]...), " ")
}

// measure measures the rows in their order.
func (b *bench) measure(ctx context.Context) error {
	engine, client, url, err := startRedis(ctx, b.folder)
	if err != nil {
		return err
	}
	defer engine.stop()
	defer client.Close()
	b.redis, b.redisURL, b.redisPID = client, url, engine.pid()
	for _, row := range []struct {
		name    string
		wanted  bool
		measure func(context.Context) error
	}{
		{"what the peers read", b.wants("badge") || b.wants("feed") || b.wants("operations") || b.wants("sockets"), b.prepare},
		{"queries", b.wants("badge") || b.wants("feed") || b.wants("operations"), b.measureQueries},
		{"sockets", b.wants("sockets"), b.measureSockets},
		{"crowd", b.wants("crowd"), b.measureCrowd},
		{"import", b.wants("import"), b.measureImport},
		{"import-posts", b.wants("import-posts"), b.measureImportPosts},
		{"every", b.wants("every"), b.measureEvery},
		{"million", b.wants("million"), b.measureMillion},
		{"conversations", b.wants("conversations"), b.measureConversations},
		{"group", b.wants("group"), b.measureGroup},
		{"recipient", b.wants("recipient"), b.measureRecipient},
		{"locks", b.wants("locks"), b.measureLocks},
		{"publish", b.wants("publish"), b.measurePublish},
		{"fanout", b.wants("fanout"), b.measureFanOut},
		{"huge", b.wants("huge"), b.measureHuge},
		{"rebuild", b.wants("rebuild"), b.measureRebuild},
		{"mixed", b.wants("mixed"), b.measureMixed},
		{"webhooks", b.wants("webhooks"), b.measureWebhooks},
		{"burst", b.wants("burst"), b.measureBurst},
		{"writes", b.wants("writes"), b.measureWrites},
		{"start", b.wants("start"), b.measureStart},
		{"board", b.wants("board"), b.measureBoard},
		{"liveday", b.wants("liveday"), b.checkLiveDay},
		{"everyone", b.wants("everyone"), b.checkEveryone},
	} {
		if !row.wanted {
			continue
		}
		if err := row.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		if err := b.scripts.collect(ctx, client); err != nil {
			return err
		}
	}
	if b.wants("scripts") {
		b.reportScripts()
	}
	return nil
}
