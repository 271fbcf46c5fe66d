package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// describeMachine says on what the figures were measured: processor, memory, system, load and versions.
func describeMachine(ctx context.Context) []string {
	facts := []string{
		"processor: " + processorName() + fmt.Sprintf(", %d for everything: servers, Redis and client share them", runtime.NumCPU()),
		"memory: " + memorySize(),
		"system: " + kernelVersion(),
		"load before the run (1, 5, 15 minutes): " + loadAverage(),
		"Go: " + strings.TrimPrefix(runtime.Version(), "go") + " " + runtime.GOARCH,
	}
	for _, program := range [][2]string{{"Node", "node"}, {"Redis", "redis-server"}} {
		version, err := runForOutput(ctx, ".", program[1], "--version")
		if err != nil {
			version = "not there"
		}
		facts = append(facts, program[0]+": "+strings.TrimSpace(version))
	}
	return facts
}

// processorName returns the first processor's name.
func processorName() string {
	return procFileValue("/proc/cpuinfo", "model name")
}

// memorySize returns the size of the machine's memory, as text.
func memorySize() string {
	return procFileValue("/proc/meminfo", "MemTotal")
}

// kernelVersion returns the name of the operating system, and on Linux the version of its kernel, as text.
func kernelVersion() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return runtime.GOOS + " " + strings.TrimSpace(string(text))
}

// loadAverage shows whether other programs were using the machine.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], ", ")
}

// procFileValue returns the value in the line "name : value" of a file of /proc; "unknown" if there is none.
func procFileValue(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for row := range strings.Lines(string(text)) {
		key, value, found := strings.Cut(row, ":")
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
