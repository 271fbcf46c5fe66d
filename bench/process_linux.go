package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit in which /proc counts processor time: on every Linux that Go runs on, a second has 100 of them.
const clockTick = 10 * time.Millisecond

// childAttributes returns the attributes with which a child ends when this process ends, even if this process is killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

// launch starts the process from a thread that lives as long as the process. For the kernel that thread is the parent: the process
// gets the signal of childAttributes when the thread ends.
func (p *process) launch() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			_ = p.command.Wait() // its log tells how it ended
			close(p.done)
		}
	}()
	return <-started
}

// residentBytes returns the memory of a process that is in use (VmRSS).
func residentBytes(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "VmRSS:" {
			kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", pid)
}

// processorTime returns the processor time that a process has used so far, in user and kernel mode together.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("process %d: stat has %d fields", pid, len(fields))
	}
	var ticks time.Duration
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += time.Duration(n)
	}
	return ticks * clockTick, nil
}

// threadTime returns the processor time of a process in nanoseconds, where processorTime counts ticks of 10 ms. It is that of the threads
// that the process has now; Go's runtime ends hardly any.
func threadTime(pid int) (total time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err == nil && len(threads) == 0 {
		err = fmt.Errorf("process %d: no schedstat of a thread", pid)
	}
	if err != nil {
		return 0, err
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the thread has ended since
		}
		if err != nil {
			return 0, err
		}
		var ran int64
		if _, err := fmt.Sscan(string(text), &ran); err != nil {
			return 0, fmt.Errorf("%s: %w", thread, err)
		}
		total += time.Duration(ran)
	}
	return total, nil
}

// sourceAddresses are the loopback addresses from which sockets are opened. Each has ports of its own, so that more sockets are
// possible than one address has ports.
var sourceAddresses = []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"}

// maxOpenFiles returns how many files this process may open; Go has raised it to the hard limit.
func maxOpenFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return limit.Cur
}
