// Package command is the command line: serve, import, export, erase, webhooks, token, vapid, doctor, schema, completion, help,
// version. It reads flags and the environment into the settings of a node, reports all their faults at once, and maps the outcome
// to an exit code.
//
// The path of a command: Run gives the words and the environment to ParseArgs. ParseArgs makes kong's parser from the tags of
// commandLineGrammar, which has node.Config in it: a setting's flag, its variable, its bounds, its help and the commands that take
// it are all one line there, and nothing else lists them. A valueDecoder decodes the values and keeps what it cannot read;
// finishParse then checks every flag that the command takes. Either all is right, or one usageError has all the faults; but kong
// stops at the first fault of its own, such as an unknown flag. The commands themselves are short: most open the database, call a
// service, and print.
//
// Commands other than serve may run beside nodes on PostgreSQL. On SQLite those that open the database, except for doctor, need the
// lock of the file, and fail while a node has it.
package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"tidings/services/node"
)

// Run runs the command and returns the exit code: 0 done, 1 failed, 2 usage error. ctx ends with a signal, and everything ends
// with ctx. A command's result goes to stdout; errors and the log go to stderr, so that the output can be piped.
func Run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	// Completion comes before the parser, because the words to complete are seldom a valid command line.
	if len(args) > 0 && args[0] == completionRequestArg {
		_ = printSuggestions(args[1:], stdout) // a shell that does not read needs no answer
		return 0
	}
	command, err := ParseArgs(args, env, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "tidings:", err)
		return 2
	}
	// An import has an exit code of its own: it may be complete although some lines were bad. It reports errors beside its progress.
	if command.Import.What != "" {
		return runImport(ctx, command, os.Stdin, stdout)
	}
	switch command.Name {
	// The runtime is set up before anything is opened, because the engines size themselves by it.
	case "serve":
		node.AddSpareThreads(env)
		log := newLog(command.Config, stderr)
		slog.SetDefault(log) // for libraries, and for what has no logger of its own
		node.TuneMemory(ctx, env, memlimit.FromCgroup, log)
		log.LogAttrs(ctx, slog.LevelInfo, "configuration", maskedSettings(command.Config)...)
		err = node.Serve(ctx, command.Config, stdout, log)
	case "export":
		err = runExport(ctx, command, stdout)
	case "erase":
		err = runErase(ctx, command, stdout)
	case "webhooks add", "webhooks list", "webhooks remove", "webhooks rotate", "webhooks test", "webhooks status", "webhooks dead", "webhooks replay":
		err = runWebhooks(ctx, command, stdout)
	case "token":
		err = runToken(command.Config, command.Token, time.Now(), stdout)
	case "vapid":
		err = runVAPID(stdout)
	case "doctor":
		err = runDoctor(ctx, command.Config, stdout)
	case "schema":
		err = runSchema(command.Schema, stdout)
	case "completion":
		err = runCompletion(command.Shell, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "tidings:", err)
		return 1
	}
	return 0
}

// newLog makes the log of a node. Text is for people, JSON for collectors. Run gives it stderr, so that it never mixes with
// what a command prints.
func newLog(cfg node.Config, out io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}
