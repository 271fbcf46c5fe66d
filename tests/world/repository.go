package world

import (
	"path/filepath"
	"runtime"
)

// Root is the path of the repository's root.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// SharedData is the path of a data set beside the repository.
func SharedData(name string) string { return filepath.Join(Root(), "..", "shared", "data", name) }
