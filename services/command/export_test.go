package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidings/services/people"
	"tidings/services/sql"
)

// callExport runs a whole export: command line, database, files.
func callExport(t *testing.T, out io.Writer, args ...string) (exit int, printed string) {
	t.Helper()
	var faults bytes.Buffer
	exit = Run(t.Context(), append([]string{"export"}, args...), environmentOf(nil), out, &faults)
	return exit, faults.String()
}

// A user's export is lines of JSON that begin with the user's profile, on the standard output and in a file.
func TestExport(t *testing.T) {
	t.Chdir(t.TempDir())
	const archive = `{"key":"1","author":"ann","at":"2026-01-30T09:30:00Z","body":"one"}` + "\n"
	if err := os.WriteFile("p.jsonl", []byte(archive), 0o600); err != nil {
		t.Fatal(err)
	}
	if exit := Run(t.Context(), strings.Fields("import posts p.jsonl --data d --quiet"), environmentOf(nil), io.Discard, io.Discard); exit != 0 {
		t.Fatalf("the import: exit code %d", exit)
	}
	var out bytes.Buffer
	if exit, printed := callExport(t, &out, "ann", "--data", "d"); exit != 0 || printed != "" {
		t.Fatalf("exit code %d: %s", exit, printed)
	}
	var types []string
	for line := range strings.Lines(out.String()) {
		var one struct{ Type, User, Body, Ref string }
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		types = append(types, one.Type+one.User+one.Body+one.Ref)
	}
	if got := fmt.Sprint(types); got != "[profileuser:ann followers postone postLabel1]" {
		t.Errorf("the lines are %s", got)
	}
	if err := os.WriteFile("ann.jsonl", []byte("of before"), 0o644); err != nil {
		t.Fatal(err)
	}
	if exit, printed := callExport(t, io.Discard, "ann", "--data", "d", "--out", "ann.jsonl"); exit != 0 || printed != "" {
		t.Fatalf("into a file: exit code %d: %s", exit, printed)
	}
	info, err := os.Stat("ann.jsonl")
	if text, _ := os.ReadFile("ann.jsonl"); err != nil || string(text) != out.String() || info.Mode().Perm() != 0o600 {
		t.Errorf("the file holds %s, mode %v, %v", text, info.Mode(), err)
	}
}

// A refused export gives the reason, and leaves no file behind.
func TestRefusedExports(t *testing.T) {
	t.Chdir(t.TempDir())
	db, err := sql.Open(t.Context(), sql.Config{URL: "sqlite:tidings.db"})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), func(tx *sql.Tx) error { _, err := people.Ensure(t.Context(), tx, []string{"ann"}); return err }); err != nil {
		t.Fatal(err)
	}
	if exit, printed := callExport(t, io.Discard, "ann", "--data", "."); exit != 1 || !strings.Contains(printed, "in use") {
		t.Errorf("while a server has the database: exit code %d, %s", exit, printed)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("kept.jsonl", []byte("of before"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  string
		exit  int
		words []string
	}{
		{"nobody --data .", 1, []string{`there is no user "nobody"`}},
		{"nobody --data . --out kept.jsonl", 1, []string{`there is no user "nobody"`}},
		{"ann --data elsewhere", 1, []string{"the database ", "elsewhere/tidings.db", "does not exist", "--data"}},
		{"ann --data . --out no/folder/ann.jsonl", 1, []string{"--out no/folder/ann.jsonl"}},
		{"ann --data . --out .", 1, []string{"--out .: it exists and is not a file"}},
		{"ann --data . --out /dev/null", 1, []string{"--out /dev/null: it exists and is not a file"}},
		{"", 2, []string{"expected \"<user>\"", "tidings export --help"}},
		{"ann bob", 2, []string{"unexpected argument bob"}},
		{"ann\x7f", 2, []string{`user key "ann\x7f"`}},
		{"user:ann --data .", 1, []string{`there is no user "user:ann"`}},
		{"ann --both", 2, []string{"--both is not a flag of tidings export"}},
		{"ann --redis redis://x", 2, []string{"--redis is not a flag of tidings export"}},
		{"ann --out", 2, []string{"--out: a value is required: --out=FILE"}},
	} {
		exit, printed := callExport(t, io.Discard, strings.Fields(c.args)...)
		if exit != c.exit {
			t.Errorf("%s: exit code %d, want %d", c.args, exit, c.exit)
		}
		for _, word := range c.words {
			if !strings.Contains(printed, word) {
				t.Errorf("%s: printed without %q: %s", c.args, word, printed)
			}
		}
	}
	if exit, printed := callExport(t, brokenWriter{}, "ann", "--data", "."); exit != 1 || !strings.Contains(printed, "the export is incomplete: ") {
		t.Errorf("into a pipe that is closed: exit code %d, %s", exit, printed)
	}
	if full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0); err == nil { // where the system has it
		if exit, printed := callExport(t, full, "ann", "--data", "."); exit != 1 || !strings.Contains(printed, "no space left") {
			t.Errorf("on a full disk: exit code %d, %s", exit, printed)
		}
		_ = full.Close()
	}
	left, err := filepath.Glob("*")
	if text, _ := os.ReadFile("kept.jsonl"); err != nil || string(text) != "of before" || strings.Contains(fmt.Sprint(left), "part") || strings.Contains(fmt.Sprint(left), "elsewhere") {
		t.Errorf("left are %v with %q, %v", left, text, err)
	}
}

// A file is written completely or not at all: a failed export leaves an earlier file of the name unchanged, and adds no file.
func TestAFileIsWrittenWhole(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "f")
	full := errors.New("no space left on device")
	half := func(out io.Writer) error {
		_, err := io.WriteString(out, "half")
		return errors.Join(err, full)
	}
	names := func() string {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, entry := range entries {
			list = append(list, entry.Name())
		}
		return strings.Join(list, " ")
	}
	if err := writeFileAtomically(path, half); !errors.Is(err, full) || !strings.Contains(err.Error(), "--out "+path+": the file was not written") || names() != "" {
		t.Errorf("broken off: %v, left are %q", err, names())
	}
	for _, text := range []string{"first", "second"} {
		if err := writeFileAtomically(path, func(out io.Writer) error {
			if held, err := os.ReadFile(path); err == nil && string(held) == text {
				t.Error("it is there before it is whole")
			}
			_, err := io.WriteString(out, text)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if held, err := os.ReadFile(path); err != nil || string(held) != text || names() != "f" {
			t.Errorf("it holds %q, %v, left are %q", held, err, names())
		}
	}
	if err := writeFileAtomically(path, half); !errors.Is(err, full) {
		t.Error(err)
	}
	if held, err := os.ReadFile(path); err != nil || string(held) != "second" || names() != "f" {
		t.Errorf("after one that broke off it holds %q, %v, left are %q", held, err, names())
	}
}
