package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A build has a cache of its own, which is empty before and gone afterwards.
func TestBuildCold(t *testing.T) {
	folder, out := t.TempDir(), filepath.Join(t.TempDir(), "built")
	took, lines, err := buildCold(t.Context(), folder, "-o", out, "unicode/utf8")
	if err != nil || took <= 0 || lines != 1 {
		t.Fatalf("%v, %d lines, %v", took, lines, err)
	}
	if _, err := os.Stat(out); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("the cache is still there: %v, %v", left, err)
	}
	if _, _, err := buildCold(t.Context(), folder, "tidings/nothing"); err == nil || !strings.Contains(err.Error(), "tidings/nothing") {
		t.Errorf("a package that does not exist: %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("after a build that failed the cache is still there: %v, %v", left, err)
	}
}
