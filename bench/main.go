// Package main is the benchmark: it measures Tidings against baselines and floors on the same machine, in the same run, and writes
// bench/RESULTS.md.
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
	resultsFile        = "bench/RESULTS.md"                          // the default of --results
	defaultFollowsFile = "../shared/data/" + importGoalFollowsFile   // the default of --follows
	quickFollowsFile   = "../shared/data/follows-twitch-engb.csv.gz" // the default of --follows with --quick
)

// rowNames are the names of the benchmark's rows, which --only accepts.
var rowNames = []string{"badge", "feed", "operations", "sockets", "crowd", "import", "import-posts", "every", "million", "conversations", "group", "recipient", "locks", "publish", "fanout", "huge", "rebuild", "mixed", "webhooks", "burst", "writes", "start", "board", "liveday", "everyone", "scripts"}

// rowSkippedByQuick is the row that takes minutes even with --quick, which therefore leaves it out unless --only names it.
const rowSkippedByQuick = "everyone"

// options are the flags of the command, and the settings that follow from them.
type options struct {
	quick, keepDataFolder    bool     // small and short; keep the folder with the logs and the data
	chartsOnly               bool     // only draw the charts again from the results
	rounds                   int      // how many turns each program has: it is measured in its turns
	turnSeconds              float64  // the length of a turn, in seconds
	connections              int      // how many connections the load generator keeps busy
	socketCount              int      // how many sockets the row sockets opens
	mercuriusProcesses       int      // how many processes the Mercurius baseline has
	selectedRows             []string // the rows to measure
	followsPath, resultsPath string   // the files of --follows and --results
	profilesFolder           string   // for profiles of our server; "" for none

	readersPerFollowCount int           // how many readers are made for each entry of followCounts
	broadcastsPerRound    int           // how often every socket gets an event in a round
	socketRounds          int           // rounds of the row sockets
	importRounds          int           // rounds of the imports
	waitBeforeMemoryRead  time.Duration // the wait before the memory of sockets is read: Tidings gives memory back some seconds after a rush
	sizes                 dataSizes     // how much data the rows make
	runTimeout            time.Duration // of the whole run
}

func main() {
	if len(os.Args) >= 5 && os.Args[1] == bareWriterArgument {
		length, err := strconv.Atoi(os.Args[4])
		if err == nil {
			err = runBareWriter(os.Args[2], os.Args[3], length, os.Args[5:]...)
		}
		exit(err)
	}
	if len(os.Args) >= 4 && os.Args[1] == bareServerArgument {
		exit(runBareServer(os.Args[2], os.Args[3], os.Args[4:]...))
	}
	if len(os.Args) == 6 && os.Args[1] == socketClientArgument {
		exit(runSocketClient(os.Args[2], os.Args[3], os.Args[4], os.Args[5]))
	}
	if len(os.Args) == 4 && os.Args[1] == bystandersArgument {
		exit(runBystanders(os.Stdout, os.Args[2], os.Args[3]))
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
	ctx, cancel := context.WithTimeoutCause(ctx, opts.runTimeout, fmt.Errorf("the run took longer than %v", opts.runTimeout))
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
	flags.BoolVar(&o.keepDataFolder, "keep", false, "keep the folder with the logs and the data, and say where it is")
	flags.BoolVar(&o.chartsOnly, "charts", false, "measure nothing: draw the charts again from the results' file")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each program takes its turn")
	flags.Float64Var(&o.turnSeconds, "seconds", 4, "how long a turn takes")
	flags.IntVar(&o.connections, "connections", 32, "how many connections ask at a time")
	flags.IntVar(&o.socketCount, "sockets", 10_000, "how many sockets are open at a time")
	flags.IntVar(&o.mercuriusProcesses, "mercurius-processes", 1, "how many processes the Mercurius baseline has")
	flags.StringVar(&o.followsPath, "follows", defaultFollowsFile, "the `file` to import: rows of two people who follow each other")
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
	o.readersPerFollowCount, o.broadcastsPerRound, o.runTimeout, o.sizes = 16, 5, time.Hour, fullDataSizes
	o.waitBeforeMemoryRead = 15 * time.Second
	o.socketRounds, o.importRounds = min(o.rounds, 3), min(o.rounds, 3)
	if o.quick {
		o.readersPerFollowCount, o.broadcastsPerRound, o.runTimeout, o.socketRounds, o.importRounds, o.sizes = 2, 2, 10*time.Minute, 1, 1, quickDataSizes
		o.waitBeforeMemoryRead = time.Second
		set := func(name string, change func()) {
			if !given[name] {
				change()
			}
		}
		set("rounds", func() { o.rounds = 1 })
		set("seconds", func() { o.turnSeconds = 0.5 })
		set("connections", func() { o.connections = 8 })
		set("sockets", func() { o.socketCount = 300 })
		set("follows", func() { o.followsPath = quickFollowsFile })
		set("results", func() { o.resultsPath = "-" })
		set("only", func() { *only = strings.Replace(*only, ","+rowSkippedByQuick, "", 1) })
	}
	for _, name := range strings.Split(*only, ",") {
		if !slices.Contains(rowNames, name) {
			return o, fmt.Errorf("--only %s: known are %s", name, strings.Join(rowNames, ", "))
		}
		o.selectedRows = append(o.selectedRows, name)
	}
	return o, errors.Join(
		checkRange("rounds", float64(o.rounds), 1, 100), checkRange("seconds", o.turnSeconds, 0.1, 600),
		checkRange("connections", float64(o.connections), 1, 1000), checkRange("sockets", float64(o.socketCount), 1, 100_000),
		checkRange("mercurius-processes", float64(o.mercuriusProcesses), 1, 64))
}

// checkRange returns an error if the value of a flag is out of range.
func checkRange(name string, value, least, most float64) error {
	if math.IsNaN(value) || value < least || value > most {
		return fmt.Errorf("--%s %v: %v to %v are allowed", name, value, least, most)
	}
	return nil
}

// bench is one run of the benchmark.
type bench struct {
	options
	dataFolder      string        // for data and logs
	redis           *redis.Client // a client of the run's own Redis
	redisPID        int           // the process of that Redis
	redisURL        string
	seededUsersFile string            // the seeded users, for the baselines
	userIDByKey     map[string]uint32 // key -> user ID
	luaScriptTimes  luaScriptTimes    // the times of Lua scripts so far
	report          *report
	profiler        *profiler // nil: no profiles are taken
	progressOutput  io.Writer // where messages about the progress go
}

// printProgress prints a message about the progress.
func (b *bench) printProgress(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	b.profiler.beginMeasurementFromProgress(text)
	fmt.Fprintln(b.progressOutput, "bench: "+text)
}

// isRowSelected reports whether a row is to be measured.
func (b *bench) isRowSelected(row string) bool { return slices.Contains(b.selectedRows, row) }

// run measures everything and writes the report. An error discards all measurements: half a table would mislead.
func run(ctx context.Context, opts options, out, progress io.Writer) (err error) {
	if _, err := os.Stat("bench/baselines"); err != nil {
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
	b := &bench{options: opts, dataFolder: folder, progressOutput: progress, profiler: newProfiler(opts.profilesFolder)}
	defer func() {
		if opts.keepDataFolder {
			b.printProgress("logs and data are in %s", folder)
		} else {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	b.report = &report{machine: describeMachine(ctx), command: commandLine(), date: time.Now(), quickRun: opts.quick, notes: reportNotes(opts)}
	b.printProgress("building")
	if err := buildPrograms(ctx); err != nil {
		return err
	}
	if err := b.measureSelectedRows(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	if err := b.profiler.writeProfiles(ctx, commandLine()); err != nil {
		return err
	}
	if err := b.report.printTable(out); err != nil || opts.resultsPath == "-" {
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

// measureSelectedRows measures the selected rows in their fixed order.
func (b *bench) measureSelectedRows(ctx context.Context) error {
	engine, client, url, err := startRedis(ctx, b.dataFolder)
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
		{"what the baselines read", b.isRowSelected("badge") || b.isRowSelected("feed") || b.isRowSelected("operations") || b.isRowSelected("sockets"), b.prepareSharedData},
		{"queries", b.isRowSelected("badge") || b.isRowSelected("feed") || b.isRowSelected("operations"), b.measureQueries},
		{"sockets", b.isRowSelected("sockets"), b.measureSockets},
		{"crowd", b.isRowSelected("crowd"), b.measureMultiNodeSockets},
		{"import", b.isRowSelected("import"), b.measureImport},
		{"import-posts", b.isRowSelected("import-posts"), b.measureImportPosts},
		{"every", b.isRowSelected("every"), b.measureEverySource},
		{"million", b.isRowSelected("million"), b.measureMillionUsers},
		{"conversations", b.isRowSelected("conversations"), b.measureConversations},
		{"group", b.isRowSelected("group"), b.measureGroupConversation},
		{"recipient", b.isRowSelected("recipient"), b.measureLikeRush},
		{"locks", b.isRowSelected("locks"), b.measureIncrementStrategies},
		{"publish", b.isRowSelected("publish"), b.measurePublish},
		{"fanout", b.isRowSelected("fanout"), b.measureFanOut},
		{"huge", b.isRowSelected("huge"), b.measureHugeAuthors},
		{"rebuild", b.isRowSelected("rebuild"), b.measureInboxRebuild},
		{"mixed", b.isRowSelected("mixed"), b.measureMixedLoad},
		{"webhooks", b.isRowSelected("webhooks"), b.measureWebhooks},
		{"burst", b.isRowSelected("burst"), b.measureBurst},
		{"writes", b.isRowSelected("writes"), b.measureWrites},
		{"start", b.isRowSelected("start"), b.measureBuildAndStart},
		{"board", b.isRowSelected("board"), b.measureBoardRows},
		{"liveday", b.isRowSelected("liveday"), b.checkShowDayBoards},
		{"everyone", b.isRowSelected("everyone"), b.checkEveryonesBadgesAndFeeds},
	} {
		if !row.wanted {
			continue
		}
		if err := row.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		if err := b.luaScriptTimes.collectFromRedis(ctx, client); err != nil {
			return err
		}
	}
	if b.isRowSelected("scripts") {
		b.reportScripts()
	}
	return nil
}
