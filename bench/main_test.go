package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	o, err := parseOptions(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.socketCount != 10_000 || o.connections != 32 || o.rounds != 5 || len(o.selectedRows) != len(rowNames) || o.resultsPath != resultsFile || o.followsPath != defaultFollowsFile {
		t.Errorf("defaults %+v", o)
	}
	if o, err = parseOptions([]string{"--quick", "--sockets", "50", "--only", "feed,badge", "--results", "x.md"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	if o.rounds != 1 || o.socketRounds != 1 || o.socketCount != 50 || o.resultsPath != "x.md" || strings.Join(o.selectedRows, " ") != "feed badge" {
		t.Errorf("--quick changes only what was not given: %+v", o)
	}
	if o, err = parseOptions([]string{"--quick"}, io.Discard); err != nil || o.resultsPath != "-" || o.socketCount > 1000 || o.runTimeout > 10*time.Minute {
		t.Errorf("--quick: %+v, %v", o, err)
	}
	if strings.Contains(strings.Join(o.selectedRows, " "), rowSkippedByQuick) || len(o.selectedRows) != len(rowNames)-1 || o.sizes.manyUsers != quickDataSizes.manyUsers {
		t.Errorf("--quick: %+v", o)
	}
	if o, err = parseOptions([]string{"--quick", "--only", rowSkippedByQuick}, io.Discard); err != nil || len(o.selectedRows) != 1 {
		t.Errorf("a long row that is named: %+v, %v", o, err)
	}
	if o, err = parseOptions([]string{"--rounds", "2"}, io.Discard); err != nil || o.rounds != 2 || o.socketRounds != 2 {
		t.Errorf("--rounds 2: %+v, %v", o, err)
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, args := range []string{"--rounds 0", "--seconds NaN", "--seconds 0", "--connections 0", "--sockets 0", "--sockets 1000000", "--only nothing", "--only ", "--mercurius-processes 0", "--unknown"} {
		if o, err := parseOptions(strings.Split(args, " "), io.Discard); err == nil {
			t.Errorf("%s: %+v", args, o)
		}
	}
	var help strings.Builder
	if _, err := parseOptions([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
	for _, name := range []string{"quick", "rounds", "seconds", "only", "keep", "follows", "results"} {
		if !strings.Contains(help.String(), "-"+name) {
			t.Errorf("--help does not know --%s", name)
		}
	}
}

func TestReportNotesNameTheConditions(t *testing.T) {
	text := strings.Join(reportNotes(options{mercuriusProcesses: 2}), "\n")
	for _, want := range []string{"share the processors", "checks no token", "2 process(es)", "equal, field by field", "in its memory"} {
		if !strings.Contains(text, want) {
			t.Errorf("the notes do not say %q", want)
		}
	}
}

func TestRunOutsideTheRootIsAnError(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := run(t.Context(), options{}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "project's root") {
		t.Errorf("got %v", err)
	}
}

func TestImportWithoutItsFileSaysSo(t *testing.T) {
	b := &bench{options: options{followsPath: "nowhere/" + importGoalFollowsFile, importRounds: 1}, report: &report{}, progressOutput: io.Discard}
	if err := b.measureImport(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.report.resultLines) != 1 || !strings.Contains(b.report.resultLines[0].cells()[4], importGoalFollowsFile+" is not there") {
		t.Errorf("lines %+v", b.report.resultLines)
	}
}

func TestMachineIsDescribed(t *testing.T) {
	facts := strings.Join(describeMachine(t.Context()), "\n")
	for _, want := range []string{"processor: ", "memory: ", "system: ", "load before the run", "Go: 1.", "Node: ", "Redis: "} {
		if !strings.Contains(facts, want) {
			t.Errorf("no %q in\n%s", want, facts)
		}
	}
	if got := procFileValue("/nowhere", "x"); got != "unknown" {
		t.Errorf("a file that is not there says %q", got)
	}
}
