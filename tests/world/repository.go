package world

import (
	"os"
	"path/filepath"
	"sync"
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

// SharedDataPath returns the path of a data set beside the repository.
func SharedDataPath(name string) string {
	return filepath.Join(RepositoryRoot(), "..", "shared", "data", name)
}
