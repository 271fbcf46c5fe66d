package world

import (
	"os"
	"path/filepath"
	"sync"
)

// Root returns the path of the repository's root: the nearest folder with go.mod above the one in which the test began. The
// source paths in the binary cannot be used, because -trimpath removes them.
var Root = sync.OnceValue(func() string {
	folder := startFolder
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			panic("no folder above " + startFolder + " has go.mod: the tests run in their packages' folders")
		}
		folder = parent
	}
})

// startFolder is the working directory at the start, because a test may change it.
var startFolder = func() string {
	folder, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return folder
}()

// SharedData returns the path of a data set beside the repository.
func SharedData(name string) string { return filepath.Join(Root(), "..", "shared", "data", name) }
