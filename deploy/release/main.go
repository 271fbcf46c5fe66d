// Command release builds the archives of a release: a static program for each of the usual systems, with the licence, the README, the
// changelog, the scripts for completion and, for Linux, the systemd unit; and their checksums.
//
// The same commit, version and Go make the same bytes: paths and the time of the build are omitted, and files carry the time of the
// commit. It runs in the repository's root:
//
//	go run ./deploy/release -version v1.2.3 -out dist
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// targets are the systems that a release has an archive for.
var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}

// target is an operating system and a processor, by the names that Go has for them (GOOS and GOARCH).
type target struct{ system, processor string }

func (t target) String() string { return t.system + "/" + t.processor }

// programName returns the file name of the program on this system.
func (t target) programName() string {
	if t.system == "windows" {
		return "tidings.exe"
	}
	return "tidings"
}

// sourcePathByName returns the files that an archive has beside the program: name in the archive -> path in the repository.
func (t target) sourcePathByName() map[string]string {
	files := map[string]string{"LICENSE": "LICENSE", "README.md": "README.md", "CHANGELOG.md": "CHANGELOG.md"}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		files["completion/tidings."+shell] = "services/command/completion/tidings." + shell
	}
	if t.system == "linux" {
		files["tidings.service"] = "deploy/systemd/tidings.service"
	}
	return files
}

func main() {
	// An interrupt ends the compiler too, and the folder of the program is removed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// The version becomes a part of file names, so release checks it.
	version := flag.String("version", "", "the version to stamp; empty: as git describe names the commit")
	out := flag.String("out", "dist", "the folder for the archives; created if missing")
	only := flag.String("only", "", "one system, as linux/amd64; empty: all")
	flag.Parse()
	if err := release(ctx, *version, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// versionPattern matches a text that can be a version and a part of a file's name.
var versionPattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$`)

// release builds the archives and their checksums.
func release(ctx context.Context, version, out, only string) error {
	// The suffix -dirty says that files differ from the commit. Nobody can build such a release again, so the commit that is stamped
	// into the program gets the suffix too.
	described, err := runProgram(ctx, "git", "describe", "--tags", "--always", "--dirty")
	if err != nil {
		return err
	}
	if version = cmp.Or(version, described); !versionPattern.MatchString(version) {
		return fmt.Errorf("%q is not a version: letters, digits, '.', '+', '_' and '-' are allowed", version)
	}
	// The time of the commit is the time of all files: the time of the build would make other bytes each time.
	last, err := runProgram(ctx, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, seconds, _ := strings.Cut(last, " ")
	if strings.HasSuffix(described, "-dirty") {
		commit += "-dirty"
	}
	committed, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	// The sums have the format of sha256sum, so that it can check them.
	var sums bytes.Buffer
	for _, t := range targets {
		if only != "" && only != t.String() {
			continue
		}
		name, archive, err := t.build(ctx, version, commit, time.Unix(committed, 0).UTC())
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		if err := os.WriteFile(filepath.Join(out, name), archive, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(archive), name)
	}
	if sums.Len() == 0 {
		return fmt.Errorf("%q is not a system of a release: %v are", only, targets)
	}
	// The sums are printed too, for a comparison with the sums of another machine.
	fmt.Print(sums.String())
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// build makes the program and the archive for a system.
func (t target) build(ctx context.Context, version, commit string, at time.Time) (name string, archive []byte, err error) {
	// The program is built outside of the repository: a new file in it would make it dirty.
	folder, err := os.MkdirTemp("", "tidings-release-*")
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	program := filepath.Join(folder, t.programName())
	// -buildvcs=false: Go's own record of the commit depends on how the repository was checked out.
	stamps := "-s -w -X tidings/services/node.releaseVersion=" + version + " -X tidings/services/node.commit=" + commit
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", stamps, "-o", program, ".")
	// Without cgo the program is static, so it runs in an image without a C library. GOFLAGS is empty, because flags from the
	// environment could change the bytes.
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.system, "GOARCH="+t.processor, "GOFLAGS=")
	if text, err := build.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("go build: %w\n%s", err, text)
	}
	root := fmt.Sprintf("tidings-%s-%s-%s", version, t.system, t.processor)
	entries := []archiveEntry{}
	if entries, err = appendFile(entries, root+"/"+t.programName(), program, 0o755); err != nil {
		return "", nil, err
	}
	for inside, path := range t.sourcePathByName() {
		if entries, err = appendFile(entries, root+"/"+inside, path, 0o644); err != nil {
			return "", nil, err
		}
	}
	// sourcePathByName returns a map, whose order is random, and an archive must have one order.
	slices.SortFunc(entries, func(a, b archiveEntry) int { return strings.Compare(a.name, b.name) })
	if t.system == "windows" {
		archive, err = makeZip(entries, at)
		// Windows opens ZIP files by itself.
		return root + ".zip", archive, err
	}
	archive, err = makeTar(entries, at)
	return root + ".tar.gz", archive, err
}

// appendFile appends a file from disk under its name in the archive.
func appendFile(entries []archiveEntry, name, path string, mode os.FileMode) ([]archiveEntry, error) {
	text, err := os.ReadFile(path)
	return append(entries, archiveEntry{name, mode, text}), err
}

// runProgram runs a program and returns what it wrote to stdout, without white space at the ends. If the program fails, the error
// has what it wrote to stderr.
func runProgram(ctx context.Context, name string, args ...string) (string, error) {
	text, err := exec.CommandContext(ctx, name, args...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w: %s", name, err, failed.Stderr)
	}
	return strings.TrimSpace(string(text)), err
}
