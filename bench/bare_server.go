package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"tidings/services"
)

// bareServerArgument is the argument with which this program is started again as the bare server: the floor of pages and of single
// mutations. The bare server is net/http with a handler that does only the work that every server must do.
//
// For a page it reads the same keys from Redis in one pipeline, ignores the replies, and answers with the bytes that Tidings
// answered. For a mutation it inserts one row by a statement that is a transaction of its own.
const bareServerArgument = "bare-server"

// The kinds of bare servers. The arguments after bareServerArgument are the address, the kind, and those of the kind.
const (
	bareServerPagesKind  = "pages"  // its argument is a file: see bareServerPagesFile
	bareServerWritesKind = "writes" // its arguments are the driver and the database
	// This kind only computes, and answers every request with 404. Its argument is how many processors it keeps busy.
	bareServerComputingKind = "computing"
)

// bareServerLabel names the bare server in the results.
const bareServerLabel = "net/http with the same reads and bytes"

// bareServerWithoutReadsLabel names, in the results, a bare server that asks Redis nothing.
const bareServerWithoutReadsLabel = "net/http with the same bytes, without reads"

// bareServerPage has the commands and the answer of the bare server for one token.
type bareServerPage struct {
	Commands [][]any // of Redis, each with its arguments
	Body     string  // the answer
}

// bareServerPagesFile is the content of the JSON file from which a bare server of the kind pages learns its answers.
type bareServerPagesFile struct {
	Redis string                    // its URL
	Pages map[string]bareServerPage // by token
}

// runBareServer serves on an address until it is stopped.
func runBareServer(address, kind string, arguments ...string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var handle http.HandlerFunc
	switch {
	case kind == bareServerPagesKind && len(arguments) == 1:
		pages, client, err := readBareServerPages(arguments[0])
		if err != nil {
			return err
		}
		defer client.Close()
		handle = storedPagesHandler(pages, client)
	case kind == bareServerWritesKind && len(arguments) == 2:
		db, err := openBareCommitDatabase(arguments[0], arguments[1])
		if err != nil {
			return err
		}
		defer db.Close()
		handle = bareCommitHandler(db)
	case kind == bareServerComputingKind && len(arguments) == 1:
		processors, err := strconv.ParseFloat(arguments[0], 64)
		if err != nil {
			return err
		}
		handle = http.NotFound
		go func() {
			if err := keepProcessorsBusy(ctx, processors); err != nil {
				fmt.Fprintln(os.Stderr, err)
				stop()
			}
		}()
	default:
		return fmt.Errorf("%s: no kind %q with %d arguments", bareServerArgument, kind, len(arguments))
	}
	server := &http.Server{Addr: address, Handler: handle} // no deadlines: only the bench connects, and its requests may come late
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// openBareCommitDatabase opens a database for bare commits, each of which is one row in a transaction of its own. name is the path
// of the SQLite file or the URL of PostgreSQL.
func openBareCommitDatabase(driver, name string) (*sql.DB, error) {
	if driver == "sqlite" {
		return openRawSQLite(name)
	}
	return sql.Open(driver, name)
}

// readBareServerPages reads a bareServerPagesFile and connects to its Redis.
func readBareServerPages(file string) (map[string]bareServerPage, *redis.Client, error) {
	var content bareServerPagesFile
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &content)
	}
	if err != nil {
		return nil, nil, err
	}
	options, err := redis.ParseURL(content.Redis)
	if err != nil {
		return nil, nil, err
	}
	return content.Pages, redis.NewClient(options), nil
}

// storedPagesHandler returns a handler that sends the commands of the page of the request's token to Redis, and then answers with
// the page.
func storedPagesHandler(pages map[string]bareServerPage, client *redis.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page, found := pages[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		if _, err := io.Copy(io.Discard, r.Body); err != nil || !found {
			http.Error(w, "no such page", http.StatusNotFound)
			return
		}
		pipe := client.Pipeline()
		for _, command := range page.Commands {
			_ = pipe.Process(r.Context(), redis.NewRawCmd(r.Context(), command...)) // it only queues
		}
		if _, err := pipe.Exec(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(page.Body)))
		_, _ = io.WriteString(w, page.Body)
	}
}

// bareCommitHandler returns a handler that inserts a row for each request. The field query of the request's body is the row's
// number.
func bareCommitHandler(db *sql.DB) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Query string }
		err := json.NewDecoder(r.Body).Decode(&asked)
		number, failed := strconv.Atoi(asked.Query)
		if err = errors.Join(err, failed); err == nil {
			err = insertBareCommitRow(r.Context(), db, number)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":{"number":`+asked.Query+`}}`)
	}
}

// insertBareCommitRow makes a bare commit: one row in a transaction of its own.
func insertBareCommitRow(ctx context.Context, db *sql.DB, number int) error {
	_, err := db.ExecContext(ctx, `INSERT INTO bare (number, who, body) VALUES ($1, $2, $3)`, number, 1, postBody(number))
	return err
}

// inboxRedisCommands returns the Redis commands that read the first page of a user's home feed: one for the document, and one for the
// entries of the page and the next entry. The posts themselves need no command, because they are in the node cache.
func inboxRedisCommands(user uint32) [][]any {
	return append(documentRedisCommands(user), []any{"ZREVRANGE", fmt.Sprintf("{u%d}:i", user), 0, pageSize})
}

// documentRedisCommands returns the Redis command that reads a user's document, which has the hosts of the user's live board. Shows
// need no command, because they are in the node cache.
func documentRedisCommands(user uint32) [][]any { return [][]any{{"HGETALL", documentKey(user)}} }

// laterBoardRedisCommands returns the Redis commands that read a later page of a user's live board: the document, the lease of the page's
// session, and of the list of replays its mark, its first entry beyond those that a list shows, and the entries of the page.
func laterBoardRedisCommands(user uint32) [][]any {
	replays := fmt.Sprintf("{u%d}:r", user)
	return append(documentRedisCommands(user), []any{"HGET", fmt.Sprintf("{u%d}:s", user), "r"}, []any{"ZRANGE", replays, 0, 0},
		[]any{"ZREVRANGE", replays, services.FeedRetention, services.FeedRetention}, []any{"ZREVRANGEBYLEX", replays, "+", "[0", "LIMIT", 0, pageSize + 1})
}

// startBarePagesServer starts a bare server for the pages of some readers. It queries the server of an installation for these
// pages, and the bare server repeats the answers. commands returns the commands that read the page of a user.
func (b *bench) startBarePagesServer(ctx context.Context, at installation, server *program, query string, readers []string, commands func(user uint32) [][]any) (*program, error) {
	folder, err := os.MkdirTemp(at.dataFolder, "bare-")
	if err != nil {
		return nil, err
	}
	client, err := at.connect()
	if err != nil {
		return nil, err
	}
	ids, _, err := readUserIDs(ctx, client, folder)
	if err := errors.Join(err, client.Close()); err != nil {
		return nil, err
	}
	content := bareServerPagesFile{Redis: at.redisURL, Pages: map[string]bareServerPage{}}
	for _, reader := range readers {
		token := "dev:" + reader
		var data json.RawMessage
		if err := server.api.doGraphQL(ctx, token, query, nil, &data); err != nil {
			return nil, err
		}
		id, found := ids[reader]
		if !found {
			return nil, fmt.Errorf("no copy of %s in Redis", reader)
		}
		content.Pages[token] = bareServerPage{Commands: commands(id), Body: `{"data":` + string(data) + `}`}
	}
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "pages.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return startBareServer(ctx, folder, bareServerPagesKind, file)
}

// startBareServer starts a bare server of a kind, whose log is in a folder.
func startBareServer(ctx context.Context, folder string, arguments ...string) (*program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := startProgram(ctx, folder, "bare", ".", self, func(port string) []string {
		return append([]string{bareServerArgument, "127.0.0.1:" + port}, arguments...)
	}, readyWhenListening)
	if err != nil {
		return nil, fmt.Errorf("bare server: %w", err)
	}
	return p, nil
}

// bareServerCPULine returns the line of the report that compares a server's processor time for one answer with the bare server's. The
// line has no goal, because no real server reaches the floor.
func bareServerCPULine(what string, ours, bare *contender) resultLine {
	l := resultLine{measurement: what + ": server CPU each", reference: bareServerLabel, unit: "x the CPU"}
	l.compareCPU(ours, bare)
	return l
}
