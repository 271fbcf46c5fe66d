package main

import (
	"os"
	"syscall"
	"testing"
)

func TestProcessStatistics(t *testing.T) {
	self := os.Getpid()
	before, err := residentBytes(self)
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	// Of the system itself: Go's heap may have room that earlier tests have left.
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(memory) }()
	for i := 0; i < size; i += 4096 {
		memory[i] = 1
	}
	after, err := residentBytes(self)
	if err != nil || after-before < size/2 {
		t.Errorf("%d bytes in use, then %d: %v", before, after, err)
	}
	start, err := processorTime(self)
	if err != nil {
		t.Fatal(err)
	}
	for used := start; used-start < 2*clockTick; { // ends only when the measured time includes our work
		if used, err = processorTime(self); err != nil {
			t.Fatal(err)
		}
	}
	start, err = threadTime(self)
	if err != nil {
		t.Fatal(err)
	}
	for used := start; used-start < clockTick/2; { // this loop is the work, and ends when the measured time includes it
		if used, err = threadTime(self); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []int{-1, 0} {
		if _, err := threadTime(bad); err == nil {
			t.Errorf("time of the threads of process %d", bad)
		}
		if _, err := residentBytes(bad); err == nil {
			t.Errorf("memory of process %d", bad)
		}
		if _, err := processorTime(bad); err == nil {
			t.Errorf("processor time of process %d", bad)
		}
	}
	if got := maxOpenFiles(); got < 256 {
		t.Errorf("%d files may be open", got)
	}
}
