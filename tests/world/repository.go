package world

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"tidings/tests/histories"
)

// RepositoryRoot returns the path of the repository's root: the nearest folder with go.mod above the one in which the test began. The
// source paths in the binary cannot be used, because -trimpath removes them.
var RepositoryRoot = sync.OnceValue(func() string {
	folder := initialWorkingFolder
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			panic("no folder above " + initialWorkingFolder + " has go.mod: the tests run in their packages' folders")
		}
		folder = parent
	}
})

// initialWorkingFolder is the working directory at the start, because a test may change it.
var initialWorkingFolder = func() string {
	folder, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return folder
}()

// OpenSharedData opens a data set beside the repository, until the end of the test. It fails the test if the file is missing, or if the
// full set of histories is not selected: without it no test reads a file outside the repository, so that each checkout tests the same.
func OpenSharedData(tb testing.TB, name string) io.Reader {
	tb.Helper()
	path := filepath.Join(RepositoryRoot(), "..", "shared", "data", name)
	if !histories.FullSetSelected(tb) {
		tb.Fatalf("%s lies outside the repository, and may only be read with the full set of histories (make nightly)", path)
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		tb.Fatalf("the full set of histories (make nightly) needs the data set %s beside the repository: %v", name, err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = file.Close() })
	return file
}
