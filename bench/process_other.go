//go:build !linux

package main

import (
	"errors"
	"syscall"
	"time"
)

// errNotLinux is the error of reading the memory or the processor time of a process on a system other than Linux.
var errNotLinux = errors.New("only Linux says what a process uses")

// childAttributes returns nothing: only Linux ends a child with its parent.
func childAttributes() *syscall.SysProcAttr { return nil }

// launch starts the process.
func (p *process) launch() error {
	if err := p.command.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.command.Wait() // its log tells how it ended
		close(p.done)
	}()
	return nil
}

// residentBytes returns an error: the memory of a process is read only on Linux.
func residentBytes(int) (int64, error) { return 0, errNotLinux }

// processorTime returns an error: the processor time of a process is read only on Linux.
func processorTime(int) (time.Duration, error) { return 0, errNotLinux }

// threadTime returns an error: the processor time of threads is read only on Linux.
func threadTime(int) (time.Duration, error) { return 0, errNotLinux }

var sourceAddresses = []string{"127.0.0.1"} // addresses of loopback to connect from

// maxOpenFiles returns how many files this process is assumed to be allowed to open.
func maxOpenFiles() uint64 { return 4096 }
