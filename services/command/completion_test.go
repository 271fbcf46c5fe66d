package command

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// actAsTidingsVariable makes the program of these tests act as tidings, so that shells can call it by that name.
const actAsTidingsVariable = "TIDINGS_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(actAsTidingsVariable) != "" {
		os.Exit(Run(context.Background(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// runInShell runs lines in a real shell that finds tidings in its PATH, in a folder with the file follows.csv and the folder files,
// and returns the output's lines.
func runInShell(t *testing.T, lines string, program string, args ...string) []string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s is needed (make install): %v", program, err)
	}
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, err := range []error{
		os.Mkdir(filepath.Join(folder, "bin"), 0o700), os.Symlink(this, filepath.Join(folder, "bin", "tidings")),
		os.Mkdir(filepath.Join(folder, "files"), 0o700), os.WriteFile(filepath.Join(folder, "follows.csv"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// A shell calls the program some twenty times. On a busy machine, under the race detector, each start takes seconds.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, path, append(args, lines)...)
	shell.Dir = folder
	shell.Env = append(os.Environ(), actAsTidingsVariable+"=1", "HOME="+folder, "PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"))
	var problems bytes.Buffer
	shell.Stderr = &problems
	out, err := shell.Output()
	if err != nil || problems.Len() > 0 {
		t.Fatalf("%s: %v\n%s%s", program, err, out, problems.String())
	}
	return strings.FieldsFunc(string(out), func(letter rune) bool { return letter == '\n' })
}

// completionCases are lines of words, the last one incomplete. want has suggestions that the shell must make, among others perhaps,
// and not has suggestions that it must not make.
var completionCases = []struct {
	words     []string
	want, not string
}{
	{[]string{"imp"}, "import", ""},
	{[]string{""}, "serve import export webhooks token vapid doctor schema version completion", "__complete"},
	{[]string{"completion", ""}, "bash zsh fish", ""},
	{[]string{"import", ""}, "follows messages posts shows", "follows.csv"},
	{[]string{"import", "follows", "fol"}, "follows.csv", "follows"},
	{[]string{"import", "follows", "--"}, "--both --prefix --database --data --quiet", "--factor --listen --scope"},
	{[]string{"import", "shows", "--fac"}, "--factor", ""},
	{[]string{"--log-l"}, "--log-level", ""},
	{[]string{"--log-format", ""}, "text json", ""},
	{[]string{"--listen", ":80", "--log-format", "j"}, "json", "text"},
	{[]string{"--log-level", "w"}, "warn", ""},
	{[]string{"--introspection", "a"}, "always", "development"},
	{[]string{"--redis", "e"}, "embedded", "private"},
	{[]string{"--redis", "private", "--redi"}, "", "--redis"},
	{[]string{"--sweep-interval", "2s", "--rec"}, "", "--reconcile-interval"}, // given by its former name
	{[]string{"--data", "fil"}, "files", "follows.csv"},
	{[]string{"doctor", "--jwt-s"}, "--jwt-secret", ""},
	{[]string{"token", "alice", "--sc"}, "--scope", "--reconcile-interval"},
	{[]string{"token", "--scope", "ad"}, "admin", ""},
	{[]string{"--bogus", "nonsense", "--demo-p"}, "--demo-pace", "--demo"},
}

// checkCompletions checks what a shell offered as completions of a line of words: every word of want, and no word of not.
func checkCompletions(t *testing.T, words []string, offered []string, want, not string) {
	t.Helper()
	for _, word := range strings.Fields(want) {
		if !slices.Contains(offered, word) {
			t.Errorf("%q: %s is missing in %q", words, word, offered)
		}
	}
	for _, word := range strings.Fields(not) {
		if slices.Contains(offered, word) {
			t.Errorf("%q: %s is offered in %q", words, word, offered)
		}
	}
}

func TestBashCompletes(t *testing.T) {
	cases := append(slices.Clone(completionCases), []struct {
		words     []string
		want, not string
	}{ // bash splits a line at =
		{[]string{"--log-format", "="}, "text json", ""},
		{[]string{"--log-format", "=", "j"}, "json", "text"},
		{[]string{"--data", "=", "fil"}, "files", ""},
	}...)
	lines := "source <(tidings completion bash)\nset -u\n"
	for _, c := range cases {
		lines += "COMP_WORDS=(tidings '" + strings.Join(c.words, "' '") + "'); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tidings; echo \"${COMPREPLY[*]-} \"\n"
	}
	out := runInShell(t, lines+"complete -p tidings\n", "bash", "--norc", "-c")
	if len(out) != len(cases)+1 || out[len(cases)] != "complete -F _tidings tidings" {
		t.Fatalf("bash prints %q", out)
	}
	for i, c := range cases {
		checkCompletions(t, c.words, strings.Fields(out[i]), c.want, c.not)
	}
}

func TestFishCompletes(t *testing.T) {
	cases := append(slices.Clone(completionCases), []struct {
		words     []string
		want, not string
	}{
		{[]string{"--log-format="}, "--log-format=text --log-format=json", ""},
		{[]string{"--data=fil"}, "--data=files/", ""},
	}...)
	lines := "tidings completion fish | source\n"
	for _, c := range cases {
		lines += "complete -C 'tidings " + strings.Join(c.words, " ") + "' | string replace -r '\\t.*' '' | string replace -r '^files/$' files | string join ' '; echo .\n"
	}
	out := runInShell(t, lines, "fish", "--no-config", "-c")
	var offered []string
	at := 0
	for _, line := range out {
		if line != "." {
			offered = strings.Fields(line)
			continue
		}
		checkCompletions(t, cases[at].words, offered, cases[at].want, cases[at].not)
		offered, at = nil, at+1
	}
	if at != len(cases) {
		t.Errorf("fish prints %q", out)
	}
}

// zsh completes only while a line is edited, so its functions for lists are replaced by some that print.
func TestZshCompletes(t *testing.T) {
	cases := append(slices.Clone(completionCases), []struct {
		words     []string
		want, not string
	}{
		{[]string{"--log-format="}, "text json", ""},
		{[]string{"--log-format=j"}, "json", "text"},
	}...)
	lines := `compdef() { [[ $1 == _tidings && $2 == tidings ]] || print wrong }
compset() { PREFIX=${PREFIX#*=} }
_describe() { local item; for item in "${(@P)3}"; do print -n -- "${item%%:*} "; done }
_files() { local name; for name in $PREFIX*(N); do print -n -- "$name "; done }
source <(tidings completion zsh)
`
	for _, c := range cases {
		lines += "words=(tidings '" + strings.Join(c.words, "' '") + "'); CURRENT=$#words; PREFIX=$words[-1]; _tidings; print -- .\n"
	}
	out := runInShell(t, lines, "zsh", "-f", "-c")
	if len(out) != len(cases) {
		t.Fatalf("zsh prints %q", out)
	}
	for i, c := range cases {
		checkCompletions(t, c.words, strings.Fields(out[i]), c.want, c.not)
	}
}

func TestAShellWithoutCompletionIsRefused(t *testing.T) {
	for line, want := range map[string]string{
		"completion tcsh":             "\"tcsh\" is not a shell with completion: bash, zsh and fish are",
		"completion":                  "expected \"<shell>\"",
		"completion bash --listen :1": "--listen is not a flag of tidings completion",
	} {
		if _, err := parse(t, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", line, err, want)
		}
	}
	for _, shell := range shells {
		if got := mustParse(t, "completion "+shell).Shell; got != shell {
			t.Errorf("completion %s: the shell is %q", shell, got)
		}
		if !strings.Contains(helpOf(t, "completion --help"), "tidings completion "+shell) {
			t.Errorf("the help does not say how to load the script of %s", shell)
		}
	}
	if help := helpOf(t, "--help"); !strings.Contains(help, "completion <shell>") {
		t.Error("tidings --help does not mention completion")
	}
}
