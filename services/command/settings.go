package command

import (
	"cmp"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"tidings/services"
	"tidings/services/node"
)

// maskedSettings returns every setting by its flag's name, for the log at the start: secrets and passwords are hidden. A setting
// that nobody listed as secret is shown, so a new key needs the tag `secret`. An operator reads this list first when a node behaves
// unlike another.
func maskedSettings(c node.Config) []slog.Attr {
	var attrs []slog.Attr
	for _, flag := range settingsOf(c) {
		attrs = append(attrs, slog.String(flag.Name, mask(flag, flagText(flag))))
	}
	return attrs
}

// settingsOf lists the settings of the server as flags that hold the values of c. A setting is a flag with a variable. The
// parser is made anew, with c as its defaults; nothing is parsed.
func settingsOf(c node.Config) []*kong.Flag {
	return slices.DeleteFunc(newParser(&commandLineGrammar{Command: Command{Config: c}}, nil).Model.Flags, func(flag *kong.Flag) bool { return environmentVariable(flag) == "" })
}

// environmentVariable is the environment variable of a flag, "" without one. Flags of other commands than serve have none: they are
// for people. The tag `variable` is for names that others have defined, such as DATABASE_URL.
func environmentVariable(flag *kong.Flag) string {
	if flag.Name == "help" || !commandTakesFlag("serve", flag) {
		return ""
	}
	return cmp.Or(flag.Tag.Get("variable"), variableOf(flag.Name))
}

// variableOf is the environment variable of a flag's name, where the tag `variable` names no other.
func variableOf(name string) string {
	return "TIDINGS_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// tagVariables are the lists that tags name as ${NAME}, so that no tag repeats a list of the code. kong replaces them in the help texts, and
// valuesOf in the tag `words`.
func tagVariables() kong.Vars {
	return kong.Vars{
		"sources": joinSources(services.Sources), "expirable_sources": joinSources(services.ExpirableSources),
		"import_summary": importSummary(), "imports": strings.Join(importNames(), ", "), "imports_or": joinWords(importNames(), "or"),
	}
}

// joinSources returns the names of sources, with commas between.
func joinSources(sources []services.Source) string {
	return strings.Join(services.Map(sources, func(source services.Source) string { return string(source) }), ", ")
}

// commandTakesFlag reports whether a command has the flag. A flag for "import" is also one of "import follows", but a flag for "import
// follows" is none of "import".
func commandTakesFlag(command string, flag *kong.Flag) bool {
	if command == "doctor" {
		command = "serve" // it checks a server's settings
	}
	return slices.ContainsFunc(strings.Split(cmp.Or(flag.Tag.Get("for"), "serve"), ","), func(name string) bool {
		return command == name || strings.HasPrefix(command, name+" ")
	})
}

// valueDecoder decodes values for kong. Unreadable values are collected here and are no error yet, so that all faults of a command
// line are reported at once. The target of such a value keeps what it had, and finishParse reports the text. nil collects
// nothing and is for parsers that never read.
type valueDecoder map[*kong.Value]string

// Decode reads the next value of the command line into target. An error from here would end kong's parse, so only a flag
// without any value returns one.
func (r valueDecoder) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("value", &text); err != nil {
		return fmt.Errorf("a value is required: %s", ctx.Value.Flag)
	}
	if services.DecodeSetting(text, target) != nil {
		r[ctx.Value] = text
	}
	return nil
}

// PlaceHolder is the form of a flag's value in the help.
func (valueDecoder) PlaceHolder(flag *kong.Flag) string { return flag.PlaceHolder }

// decodableTypes are the types that a valueDecoder decodes: those of services.DecodeSetting. kong itself reads switches.
var decodableTypes = []reflect.Type{
	reflect.TypeFor[string](), reflect.TypeFor[[]string](), reflect.TypeFor[int](), reflect.TypeFor[int64](), reflect.TypeFor[time.Duration](), reflect.TypeFor[slog.Level](),
}

// flagText is a flag's value, in the form in which a user would give it. When it is read again, it gives the same value. It is
// compared with lists of words too, so it must not depend on the machine.
func flagText(flag *kong.Flag) string {
	switch value := flag.Target.Interface().(type) {
	case []string:
		return strings.Join(value, ",")
	case slog.Level:
		return strings.ToLower(value.String())
	default:
		return fmt.Sprint(value)
	}
}

const secretMask = "***" // printed in place of a secret

var (
	// urlPassword matches the password in a URL. It is greedy, because a password may have any character: everything up to the last
	// @ is hidden, even if that is too much.
	urlPassword = regexp.MustCompile(`(?s)(://[^:@/]*:).*@`)
	// queryPassword matches a password among the parameters of a URL, where drivers take it too. A parameter is hidden if its name contains
	// one of these words.
	queryPassword = regexp.MustCompile(`(?i)([?&][^=&]*(?:pass|secret|token|key)[^=&]*=)[^&]*`)
)

// mask returns a flag's value as it may be printed. An address without a visible scheme is hidden completely, because its password
// may be anywhere in it. Errors print values with mask too: a wrong secret must not end in a log. The tag `secret` has the value
// `all` for a key, and another value for an address with a password in it.
func mask(flag *kong.Flag, text string) string {
	secret := flag.Tag.Get("secret")
	switch {
	case text == "" || secret == "":
		return text
	case secret == "all" || strings.ContainsAny(text, "@=") && !strings.Contains(text, "://"):
		return secretMask
	}
	return queryPassword.ReplaceAllString(urlPassword.ReplaceAllString(text, "${1}"+secretMask+"@"), "${1}"+secretMask)
}

// fault is an error about a flag's value: the flag and its variable, the value, and what would be right. The text is quoted,
// because a space at its end is a frequent fault.
func fault(flag *kong.Flag, text, format string, args ...any) error {
	name := "--" + flag.Name
	if env := environmentVariable(flag); env != "" {
		name += " (" + env + ")"
	}
	// The value may have been set under a former name.
	for _, former := range flag.Aliases {
		name += ", formerly --" + former + ","
	}
	return fmt.Errorf("%s is %s: %s", name, services.Quote(mask(flag, text)), fmt.Sprintf(format, args...))
}

// unreadableError is the fault of a text that cannot be a value of its type. It names the bounds too, so that the next attempt is
// right.
func unreadableError(flag *kong.Flag, text string) error {
	form := "a whole number"
	switch flag.Target.Interface().(type) {
	case slog.Level:
		return fault(flag, text, "debug, info, warn or error is allowed")
	case time.Duration:
		form = "a duration with its unit (300ms, 5s, 720h)"
	}
	return fault(flag, text, "%s from %s to %s is allowed", form, flag.Tag.Get("min"), flag.Tag.Get("max"))
}

// checkSetting returns the fault of a value that was read: it is outside its bounds or its list of words, or reasons, the
// result of node.Config.Faults, has one for its flag. Only one fault of a value is reported, the simplest. checkSetting runs for
// defaults too (see finishParse), because such a reason may concern several settings.
func checkSetting(flag *kong.Flag, reasons map[string]string) error {
	if least, most := flag.Tag.Get("min"), flag.Tag.Get("max"); least != "" {
		if value := flag.Target.Int(); value < parseBound(flag, least) || value > parseBound(flag, most) {
			return fault(flag, flagText(flag), "%s to %s is allowed", least, most)
		}
	}
	if words := strings.Fields(flag.Tag.Get("oneof")); len(words) > 0 && !slices.Contains(words, flagText(flag)) {
		return fault(flag, flagText(flag), "it must be one of %s", strings.Join(words, ", "))
	}
	if reason := reasons[flag.Name]; reason != "" {
		return fault(flag, flagText(flag), "%s", reason)
	}
	return nil
}

// parseBound reads a bound of the tags, in the unit of the flag. Tests prove that all tags are valid. A duration is a number too,
// of nanoseconds.
func parseBound(flag *kong.Flag, text string) int64 {
	// The bound is read like the flag's own values, so that 100ms is a bound of a duration.
	bound := reflect.New(flag.Target.Type()).Elem()
	if err := services.DecodeSetting(text, bound); err != nil {
		panic(err)
	}
	return bound.Int()
}
