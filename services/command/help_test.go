package command

import (
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/node"
)

// helpOf is the help that a command line prints.
func helpOf(t *testing.T, line string) string {
	t.Helper()
	var out strings.Builder
	if _, err := ParseArgs(strings.Fields(line), environmentOf(nil), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Every field of Config is a setting. Every flag has a help text, and is in the help of exactly the commands that take it. Its
// default and its bounds are valid.
func TestEverySettingIsDocumented(t *testing.T) {
	help := map[string]string{"serve": helpOf(t, "--help"), "import": helpOf(t, "import --help"), "export": helpOf(t, "export --help"), "token": helpOf(t, "token --help"), "schema": helpOf(t, "schema --help"), "webhooks": helpOf(t, "webhooks --help"), "erase": helpOf(t, "erase --help"), "doctor": helpOf(t, "doctor --help")}
	if fields, tagged := countFields(reflect.TypeFor[node.Config]()), len(settingsOf(node.Config{})); fields != tagged {
		t.Errorf("Config has %d fields and %d settings", fields, tagged)
	}
	k := newParser(&commandLineGrammar{}, nil)
	names, groups := map[string]bool{}, map[string]bool{}
	for _, flag := range k.Model.Flags[1:] { // the first is --help
		if env := environmentVariable(flag); names[flag.Name] || env != "" && names[env] {
			t.Errorf("--%s: its flag or variable has two settings", flag.Name)
		}
		names[flag.Name], names[environmentVariable(flag)] = true, true
		groups[flag.Group.Title] = true
		if flag.Help == "" || flag.PlaceHolder == "" && !flag.IsBool() {
			t.Errorf("--%s: help %q, placeholder %q", flag.Name, flag.Help, flag.PlaceHolder)
		}
		for command, text := range help {
			taken := commandTakesFlag(command, flag) || command == "webhooks" && (commandTakesFlag("webhooks add", flag) || commandTakesFlag("webhooks rotate", flag) || commandTakesFlag("webhooks replay", flag)) || command == "import" && (commandTakesFlag("import follows", flag) || commandTakesFlag("import shows", flag))
			if listed := strings.Contains(text, "  "+flag.String()+" ") || strings.Contains(text, "  "+flag.String()+"\n"); taken != listed {
				t.Errorf("--%s: in the help of %s is %t", flag.Name, command, !taken)
			}
		}
		if !strings.Contains(help["serve"], environmentVariable(flag)+"]") {
			t.Errorf("%s is not in the help", environmentVariable(flag))
		}
		if flag.HasDefault {
			if err := services.DecodeSetting(flag.Default, flag.Target); err != nil {
				t.Errorf("the default of --%s: %v", flag.Name, err)
			}
		}
		if flag.Target.CanInt() && flag.Name != "log-level" && parseBound(flag, flag.Tag.Get("min")) >= parseBound(flag, flag.Tag.Get("max")) {
			t.Errorf("--%s: no value lies between %s and %s", flag.Name, flag.Tag.Get("min"), flag.Tag.Get("max"))
		}
	}
	for name := range (node.Config{}).Faults() {
		if !names[name] {
			t.Errorf("there is a check for --%s, which is no setting", name)
		}
	}
	for title := range groups {
		if !strings.Contains(help["serve"]+help["import"]+help["export"]+help["token"]+help["schema"]+help["webhooks"]+help["erase"], "\n"+title+"\n") {
			t.Errorf("the group %q is not in the help", title)
		}
	}
}

// countFields counts the fields of a struct, with those of the structs that it embeds by the tag.
func countFields(settings reflect.Type) (fields int) {
	for field := range settings.Fields() {
		if _, embedded := field.Tag.Lookup("embed"); embedded {
			fields += countFields(field.Type)
		} else {
			fields++
		}
	}
	return fields
}

// The help and the completion of the settings that name sources have every source that can be named, so that a new one is there.
func TestEverySourceIsInTheHelp(t *testing.T) {
	flags := flagsByName(newParser(&commandLineGrammar{}, nil).Model)
	for _, source := range services.Sources {
		if help := flags["display-caps"].Help; !strings.Contains(help, " "+string(source)) {
			t.Errorf("%s is not in the help of --display-caps: %s", source, help)
		}
		if help := flags["badge-expiry"].Help; strings.Contains(help, " "+string(source)) != slices.Contains(services.ExpirableSources, source) {
			t.Errorf("%s in the help of --badge-expiry: %s", source, help)
		}
		if !slices.Contains(suggest([]string{"webhooks", "add", "--sources"}, ""), suggestion{word: string(source)}) {
			t.Errorf("%s is no completion of --sources", source)
		}
	}
}

// Variables whose names do not derive from their flag keep the names that hosting platforms use.
func TestVariablesOfTheEnvironment(t *testing.T) {
	got := map[string]string{}
	for _, flag := range settingsOf(node.Config{}) {
		got[flag.Name] = environmentVariable(flag)
	}
	for name, want := range map[string]string{"database": "DATABASE_URL", "redis": "REDIS_URL", "jwt-secret": "TIDINGS_JWT_SECRET", "notification-expiry": "TIDINGS_NOTIFICATION_EXPIRY"} {
		if got[name] != want {
			t.Errorf("--%s: the variable is %q, want %q", name, got[name], want)
		}
	}
}

// The value of a flag is no command, wherever it stands.
func TestHelpIsOfTheCommandBehindTheFlags(t *testing.T) {
	for line, same := range map[string]string{
		"--data x import follows --help": "import --help", "--data=x import --help": "import --help", "--demo export --help": "export --help",
		"--help --log-level debug erase bob": "erase --help", "help --data x": "--help", "--listen import --help": "--help", "--data --help": "--help",
	} {
		if got, want := helpOf(t, line), helpOf(t, same); got != want {
			t.Errorf("%s prints %.300s", line, got)
		}
	}
}

func TestHelpAndVersionArePrinted(t *testing.T) {
	for line, words := range map[string][]string{
		"--help":         {"Usage:", "Examples:", "import <what> <file>", "--listen=HOST:PORT", "[default 100ms; 10ms to 10s; TIDINGS_PUSH_INTERVAL]"},
		"export --help":  {"tidings export <user> [flags]", "--out=FILE", "--database=URL", "the exit code is 1"},
		"import --help":  {"tidings import <what> <file> [flags]", "--both", "FILE.bad", "exit code is 1", "follows, messages, posts or shows", "notify nobody", "--feed-kinds"},
		"help import":    {"--prefix=TEXT"},
		"--version":      {"tidings ", "go1."},
		"--help --bogus": {"Usage:"},
	} {
		var out strings.Builder
		if _, err := ParseArgs(strings.Fields(line), environmentOf(nil), &out); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		for _, word := range words {
			if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), word) {
				t.Errorf("%q does not print %q", line, word)
			}
		}
		for row := range strings.Lines(out.String()) {
			if len(row) > 121 {
				t.Errorf("%q prints a line of %d letters: %s", line, len(row), row)
			}
		}
	}
	if _, err := ParseArgs([]string{"--help"}, environmentOf(nil), brokenWriter{}); err == nil {
		t.Error("help that could not be printed is no error")
	}
}

// brokenWriter fails every write.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
