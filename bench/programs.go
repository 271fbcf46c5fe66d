package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/redis/go-redis/v9"
)

const (
	bunFolder          = "bench/baselines/bun"
	mercuriusFolder    = "bench/baselines/mercurius"
	binFolder          = "bench/bin" // the programs that buildPrograms has compiled
	nodeName           = "bench"     // the name of the node in the shared installation
	maxListpackEntries = "512"       // the longest sorted set that Redis keeps in compact form: the limit that Tidings sets, for every program
)

// program is a running server and its address.
type program struct {
	*process
	address        string
	controlAddress string     // where a baseline serves POST /trigger, which sends one event to each of its sockets
	api            *apiClient // sends requests that are not measured
}

// buildPrograms compiles the server and the Go baseline from the project's root.
func buildPrograms(ctx context.Context) error {
	for _, target := range [][2]string{{"tidings", "."}, {"gqlgen-baseline", "./bench/baselines/gqlgen"}} {
		if _, err := runForOutput(ctx, ".", "go", "build", "-o", filepath.Join(binFolder, target[0]), target[1]); err != nil {
			return err
		}
	}
	return nil
}

// startRedis starts a separate Redis that stores nothing on disk.
func startRedis(ctx context.Context, folder string) (p *process, client *redis.Client, url string, err error) {
	port, err := freePort()
	if err != nil {
		return nil, nil, "", err
	}
	p, err = startProcess(ctx, folder, "redis", folder, "redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--databases", strconv.Itoa(redisDBCount),
		"--appendonly", "no", "--zset-max-listpack-entries", maxListpackEntries,
		"--slowlog-log-slower-than", strconv.Itoa(int(slowLogThreshold.Microseconds())), "--slowlog-max-len", strconv.Itoa(slowLogLength))
	if err != nil {
		return nil, nil, "", err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	client = redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
	if err := p.waitUntilReady(ctx, func(ctx context.Context) error { return client.Ping(ctx).Err() }); err != nil {
		p.stop()
		return nil, nil, "", errors.Join(err, client.Close())
	}
	return p, client, "redis://" + address, nil
}

// startProgram finds a port, starts a program on it and waits until it is ready.
func startProgram(ctx context.Context, folder, name, dir, path string, arguments func(port string) []string, ready func(address string) func(context.Context) error) (*program, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	p, err := startProcess(ctx, folder, name, dir, path, arguments(strconv.Itoa(port))...)
	if err != nil {
		return nil, err
	}
	if err := p.waitUntilReady(ctx, ready(address)); err != nil {
		p.stop()
		return nil, err
	}
	return &program{process: p, address: address, controlAddress: address, api: newAPIClient(address)}, nil
}

// startServer starts Tidings on the data and the Redis that the baselines read.
func (b *bench) startServer(ctx context.Context) (*program, error) {
	return b.sharedInstallation().start(ctx)
}

// installation is where a server stores its data: a folder, and a database of the run's Redis.
type installation struct {
	dataFolder, redisURL, nodeName string    // nodeName is the name of the server's node (--node)
	profiler                       *profiler // nil: no profiles are taken
}

// sharedInstallation returns the installation whose data in Redis the baselines read too.
func (b *bench) sharedInstallation() installation {
	return installation{b.dataFolder, b.redisURL, nodeName, b.profiler}
}

// newInstallation makes an installation that only one row uses.
func (b *bench) newInstallation(name string, database int) (installation, error) {
	p := installation{filepath.Join(b.dataFolder, name), b.redisURL + "/" + strconv.Itoa(database), nodeName + "-" + name, b.profiler}
	return p, os.MkdirAll(filepath.Join(p.dataFolder, "data"), 0o700)
}

// runOnOwnServer runs a row on a separate server. Afterwards the server is stopped and its data in Redis is deleted. Its files stay
// until the bench ends.
func (b *bench) runOnOwnServer(ctx context.Context, name string, database int, row func(ctx context.Context, at installation, server *program) error) (err error) {
	p, err := b.newInstallation(name, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	server, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	return row(ctx, p, server)
}

// databasePath returns the path of the SQLite database.
func (p installation) databasePath() string { return filepath.Join(p.dataFolder, "data", "tidings.db") }

// start starts Tidings on the installation, which has one server at a time.
func (p installation) start(ctx context.Context, arguments ...string) (*program, error) {
	profiling, operations, err := p.profiler.profilingServerArguments()
	if err != nil {
		return nil, err
	}
	arguments = append(arguments, profiling...)
	server, err := startProgram(ctx, p.dataFolder, "tidings", ".", filepath.Join(binFolder, "tidings"), func(port string) []string {
		return append([]string{"--listen", "127.0.0.1:" + port, "--data", filepath.Join(p.dataFolder, "data"), "--redis", p.redisURL, "--node", p.nodeName,
			"--log-level", "warn", "--drain", "0s", "--rate-limits", "off", "--sockets-per-user", "0", "--sockets-per-address", "0"}, arguments...)
	}, func(address string) func(context.Context) error {
		return readyWhenAnswering("http://" + address + "/readyz")
	})
	if err == nil && p.profiler != nil {
		go p.profiler.profileRepeatedly(ctx, server.pid(), operations) // it ends with the server
	}
	return server, err
}

// connect returns a client of the installation's database in Redis.
func (p installation) connect() (*redis.Client, error) {
	options, err := redis.ParseURL(p.redisURL)
	if err != nil {
		return nil, err
	}
	options.ContextTimeoutEnabled = true
	return redis.NewClient(options), nil
}

// deleteRedisData deletes the installation's data in Redis, so that it does not count as the next row's memory.
func (p installation) deleteRedisData(ctx context.Context) error {
	client, err := p.connect()
	if err != nil {
		return err
	}
	return errors.Join(client.FlushDB(ctx).Err(), client.Close())
}

// startMercurius starts the Node baseline with a number of processes. npm fetches its packages if they are not there.
func (b *bench) startMercurius(ctx context.Context, processes int) (*program, error) {
	if err := installMercurius(ctx, b.printProgress); err != nil {
		return nil, err
	}
	return startProgram(ctx, b.dataFolder, "mercurius", mercuriusFolder, "node", func(port string) []string {
		return []string{"server.mjs", port, b.redisURL, b.seededUsersFile, strconv.Itoa(processes)}
	}, readyWhenListening)
}

// errNodeJSMissing means that a baseline in JavaScript cannot run on this machine. It is not measured then.
var errNodeJSMissing = errors.New("node and npm are not installed")

// installMercurius lets npm fetch the packages of the Node baseline if they are not there.
func installMercurius(ctx context.Context, say func(string, ...any)) error {
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			return errNodeJSMissing
		}
	}
	if _, err := os.Stat(filepath.Join(mercuriusFolder, "node_modules", "mercurius")); err == nil {
		return nil
	}
	say("fetching the packages of the Mercurius baseline (npm ci)")
	_, err := runForOutput(ctx, mercuriusFolder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	return err
}

// startBun starts the Bun baseline. npm fetches its packages if they are not there.
func (b *bench) startBun(ctx context.Context) (*program, error) {
	path, err := installBun(ctx, b.printProgress)
	if err != nil {
		return nil, err
	}
	return startProgram(ctx, b.dataFolder, "bun", bunFolder, path, func(port string) []string {
		return []string{"server.mjs", port, b.redisURL, b.seededUsersFile}
	}, readyWhenListening)
}

// installBun returns the path of Bun. If it is not there, npm fetches the package for this machine, and runs no script of it: each
// platform has a package that contains the program.
func installBun(ctx context.Context, say func(string, ...any)) (path string, err error) {
	if path = findBunBinary(bunFolder); path == "" {
		if _, err := exec.LookPath("npm"); err != nil {
			return "", errNodeJSMissing
		}
		say("fetching the packages of the Bun baseline (npm ci)")
		if _, err := runForOutput(ctx, bunFolder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
			return "", err
		}
		if path = findBunBinary(bunFolder); path == "" {
			return "", fmt.Errorf("%w: npm has no Bun for this machine", errNodeJSMissing)
		}
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := runForOutput(ctx, bunFolder, path, "--version"); err != nil { // it needs AVX2 on x64
		return "", fmt.Errorf("%w: Bun does not run on this machine: %w", errNodeJSMissing, err)
	}
	return path, nil
}

// findBunBinary finds Bun in the packages that npm has fetched; "" if there is none.
func findBunBinary(folder string) string {
	for _, name := range []string{"bun", "bun.exe"} {
		found, _ := filepath.Glob(filepath.Join(folder, "node_modules", "@oven", "bun-*", "bin", name)) // the pattern is valid
		if len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// startGqlgen starts the stock gqlgen baseline.
func (b *bench) startGqlgen(ctx context.Context) (*program, error) {
	return startProgram(ctx, b.dataFolder, "gqlgen", ".", filepath.Join(binFolder, "gqlgen-baseline"), func(port string) []string {
		return []string{"-listen", "127.0.0.1:" + port, "-redis", b.redisURL, "-users", b.seededUsersFile}
	}, readyWhenListening)
}

// startBareWriter starts the bare writer, whose frames are length bytes long. documents is as for runBareWriter.
func (b *bench) startBareWriter(ctx context.Context, length int, documents ...string) (*program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	control := "127.0.0.1:" + strconv.Itoa(port)
	p, err := startProgram(ctx, b.dataFolder, "bare", ".", self, func(port string) []string {
		return append([]string{bareWriterArgument, "127.0.0.1:" + port, control, strconv.Itoa(length)}, documents...)
	}, func(string) func(context.Context) error { return readyWhenListening(control) })
	if err != nil {
		return nil, fmt.Errorf("bare writer: %w", err)
	}
	p.controlAddress = control
	return p, nil
}
