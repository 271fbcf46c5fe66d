package world

import (
	"os"
	"path/filepath"
	"sync"
)

// Root is the path of the repository's root, the nearest folder with go.mod above the one in which the test began. The paths that a program
// was compiled from do not tell: -trimpath leaves them out.
var Root = sync.OnceValue(func() string {
	folder := began
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			panic("no folder above " + began + " has go.mod: the tests run in their packages' folders")
		}
		folder = parent
	}
})

// began is the folder in which the test began: a test may leave it.
var began = func() string {
	folder, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return folder
}()

// SharedData is the path of a data set beside the repository.
func SharedData(name string) string { return filepath.Join(Root(), "..", "shared", "data", name) }
