package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	startTimeout    = 20 * time.Second // for a program to be ready
	stopTimeout     = 15 * time.Second // after SIGTERM
	outputTailBytes = 2000             // of a program's output in an error
)

// process is a program that the bench started and stops.
type process struct {
	name    string // in errors, and of the log file
	command *exec.Cmd
	logFile string        // the file of its output
	done    chan struct{} // closed when the process has ended
}

// startProcess starts a program, in the working directory dir, whose output goes to the file NAME.log in folder. The program ends with
// ctx at the latest.
func startProcess(ctx context.Context, folder, name, dir, program string, args ...string) (*process, error) {
	log := filepath.Join(folder, name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	command := exec.CommandContext(ctx, program, args...)
	command.Dir, command.Stdout, command.Stderr = dir, out, out
	command.SysProcAttr = childAttributes()
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = stopTimeout
	p := &process{name: name, command: command, logFile: log, done: make(chan struct{})}
	if err := p.launch(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.command.Process.Pid }

// stop ends the process, by SIGKILL if it does not end after SIGTERM.
func (p *process) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.command.Process.Kill()
		<-p.done
	}
}

// waitUntilReady calls ready until it returns nil; it gives up when the process ends or takes too long.
func (p *process) waitUntilReady(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready: %w\n%s", p.name, err, p.outputTail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %v: %w\n%s", p.name, startTimeout, err, p.outputTail())
		case <-ticker.C:
		}
	}
}

// outputTail returns the end of the process's output.
func (p *process) outputTail() string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-outputTailBytes):]))
}

// freePort finds a port of loopback that is not in use.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// readyWhenAnswering returns a check that succeeds when the address answers with status 200.
func readyWhenAnswering(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
}

// readyWhenListening returns a check that succeeds when the address takes a connection.
func readyWhenListening(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// runForOutput runs a program to its end and returns its output.
func runForOutput(ctx context.Context, dir, program string, args ...string) (string, error) {
	out, _, err := runForCPUTime(ctx, dir, program, args...)
	return out, err
}

// runForCPUTime runs a program to its end, and returns its output and how much processor time it took.
func runForCPUTime(ctx context.Context, dir, program string, args ...string) (output string, busy time.Duration, err error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = dir
	command.SysProcAttr = childAttributes()
	command.WaitDelay = stopTimeout
	out, err := command.CombinedOutput()
	if command.ProcessState != nil { // nil: it did not start
		busy = command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	}
	if err != nil {
		return string(out), busy, fmt.Errorf("%s %v: %w\n%s", filepath.Base(program), args, err, bytes.TrimSpace(out[max(0, len(out)-outputTailBytes):]))
	}
	return string(out), busy, nil
}
