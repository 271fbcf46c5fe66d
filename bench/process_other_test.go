//go:build !linux

package main

import (
	"os"
	"testing"
)

func TestProcessStatistics(t *testing.T) {
	if _, err := residentBytes(os.Getpid()); err != errNotLinux {
		t.Errorf("memory without /proc: %v", err)
	}
}
