package command

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"tidings/services"
)

// completionScripts are the scripts that shells load. A script asks this program at each press of Tab and knows no flag by itself, so
// it is never out of date.
//
//go:embed completion
var completionScripts embed.FS

// shells are the shells for which there is a script, named tidings.SHELL in the folder.
var shells = []string{"bash", "zsh", "fish"}

// completionRequestArg is the first argument when a script asks: tidings __complete SHELL WORD... The last word is to be completed.
const completionRequestArg = "__complete"

// completionArgs are the words after completion.
type completionArgs struct {
	Shell string `arg:"" words:"bash zsh fish" help:"bash, zsh or fish"`
}

// Help is the text of tidings completion --help.
func (completionArgs) Help() string {
	return `Examples:

  source <(tidings completion bash)                                  in ~/.bashrc
  source <(tidings completion zsh)                                   in ~/.zshrc, after compinit
  tidings completion fish > ~/.config/fish/completions/tidings.fish  once

The script completes commands, their flags, the values of flags that have a list of them, and names of files.
`
}

// runCompletion prints the script for a shell. The shell has been checked, so the file is there.
func runCompletion(shell string, out io.Writer) error {
	script, err := completionScripts.ReadFile("completion/tidings." + shell)
	if err == nil {
		_, err = out.Write(script)
	}
	return err
}

// checkShell returns an error for a shell without a script.
func checkShell(shell string) error {
	if slices.Contains(shells, shell) {
		return nil
	}
	return fmt.Errorf("%s is not a shell with completion: bash, zsh and fish are", services.Quote(shell))
}

// suggestion is one way to complete a word. help is "" for values of a list, which say what they are.
type suggestion struct{ word, help string }

// fileNamesMarker stands for the names of files, which the shell completes itself: the scripts look for this line. No suggestion of
// ours begins with a colon.
const fileNamesMarker = ":files"

// printSuggestions prints the suggestions for the last of the words in the form of the shell, one a line. For a word that cannot be
// completed it prints nothing, which is no error. It runs at each press of a key, so it opens nothing. bash cannot show help
// texts, so it gets the word alone.
func printSuggestions(args []string, out io.Writer) error {
	if len(args) < 2 {
		return nil
	}
	shell, words := args[0], joinValues(args[1:])
	last := words[len(words)-1]
	prefix := ""
	// --flag=va is the flag and a value that has begun.
	if flag, value, found := strings.Cut(last, "="); found && strings.HasPrefix(flag, "-") {
		words, last, prefix = append(words[:len(words)-1:len(words)-1], flag), value, flag+"="
	} else {
		words = words[:len(words)-1]
	}
	// Each shell has its form: what stands between a word and its help, and whether the part before = belongs to the word.
	for _, one := range suggest(words, last) {
		line := one.word
		switch {
		case one.word == fileNamesMarker:
		case !strings.HasPrefix(one.word, last):
			continue
		case shell == "zsh": // zsh completes the part after the = alone, as bash does, so the prefix is left out
			line = strings.ReplaceAll(one.word, ":", `\:`) + ":" + one.help
		case shell == "fish":
			line = prefix + one.word + "\t" + one.help
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// joinValues undoes what bash does: --flag=value arrives there as the three words --flag, = and value. Other shells send one
// word, which stays as it is. bash breaks words at =, because COMP_WORDBREAKS has it, and changing that would change other
// programs' completion.
func joinValues(words []string) []string {
	var joined []string
	for i, word := range words {
		last := len(joined) - 1
		switch {
		case word == "=" && last >= 0 && strings.HasPrefix(joined[last], "--"):
			joined[last] += "="
		case i > 0 && words[i-1] == "=" && last >= 0 && strings.HasSuffix(joined[last], "="):
			joined[last] += word
		default:
			joined = append(joined, word)
		}
	}
	return joined
}

// suggest lists what may follow the words; last is the beginning of the next one. The caller keeps the suggestions that begin
// with last. Here it matters only whether last begins with a dash, which asks for flags. kong itself is not used, because it
// parses whole lines, and this line is not complete.
func suggest(words []string, last string) (list []suggestion) {
	// This is the parser's own model, so a new flag is completed without a line here.
	model := newParser(&commandLineGrammar{}, valueDecoder{}).Model
	flags := flagsByName(model)
	// The words are read as kong would, but nothing is a fault: an unknown flag is skipped.
	var command *kong.Node
	var values []string // the command's arguments so far
	given := map[*kong.Flag]bool{}
	for i := 0; i < len(words); i++ {
		word := words[i]
		if strings.HasPrefix(word, "-") {
			flag, apart := flagOf(flags, word)
			given[flag] = true
			if !apart {
				continue
			}
			if i++; i == len(words) { // last is the value of this flag
				return valuesOf(flag.Value, flag.PlaceHolder)
			}
			continue
		}
		if command == nil && len(values) == 0 {
			at := slices.IndexFunc(model.Children, func(node *kong.Node) bool { return node.Name == word })
			if at >= 0 {
				command = model.Children[at]
				continue
			}
		}
		values = append(values, word)
	}
	name := "serve"
	if command != nil {
		name = strings.Join(append([]string{command.Name}, values...), " ") // import has the flags of import follows
	}
	// A line has a command, and then its arguments in order. After the last one, and for serve, only flags are left.
	if !strings.HasPrefix(last, "-") {
		switch {
		case command == nil && len(values) == 0:
			for _, node := range model.Children {
				list = append(list, suggestion{node.Name, firstWords(node.Help)})
			}
			return list
		case command != nil && len(values) < len(command.Positional):
			next := command.Positional[len(values)]
			return valuesOf(next, next.Name)
		}
	}
	for _, flag := range model.Flags {
		// A flag that was given is not offered again.
		if flag.Name == "help" || commandTakesFlag(name, flag) && !given[flag] {
			list = append(list, suggestion{"--" + flag.Name, firstWords(flag.Help)})
		}
	}
	return list
}

// flagsByName are the flags of a command line, by their names without dashes, former names included.
func flagsByName(model *kong.Application) map[string]*kong.Flag {
	flags := map[string]*kong.Flag{}
	for _, flag := range model.Flags {
		for _, name := range append(flag.Aliases, flag.Name) {
			flags[name] = flag
		}
	}
	return flags
}

// flagOf is the flag that a word with one or two dashes names; nil for an unknown one. apart reports whether its value is the
// next word: not if it follows a =, and not for a switch, which has none.
func flagOf(flags map[string]*kong.Flag, word string) (flag *kong.Flag, apart bool) {
	name, _, whole := strings.Cut(strings.TrimLeft(word, "-"), "=")
	flag = flags[name]
	return flag, flag != nil && !whole && !flag.IsBool()
}

// valuesOf lists the known values of a flag or argument; form is the placeholder of the help, which says whether the value is a
// file or a folder. checkSetting checks the values of the tag `oneof`; those of the tag `words` have checks of their own.
// ${NAME} in a tag is a list of tagVariables.
func valuesOf(value *kong.Value, form string) (list []suggestion) {
	words := value.Tag.Get("oneof") + " " + value.Tag.Get("words")
	for name, text := range tagVariables() { // a list has commas
		words = strings.ReplaceAll(words, "${"+name+"}", strings.ReplaceAll(text, ",", ""))
	}
	for _, word := range strings.Fields(words) {
		list = append(list, suggestion{word: word})
	}
	if form = strings.ToUpper(form); strings.Contains(form, "FILE") || form == "FOLDER" {
		list = append(list, suggestion{word: fileNamesMarker})
	}
	return list
}

// firstWords is the beginning of a help text, for a list: up to a semicolon, and at most about 80 characters. Shells show a
// line for each suggestion, and what follows the semicolon is a detail.
func firstWords(help string) string {
	help, _, _ = strings.Cut(help, "; ")
	if len(help) > 80 {
		help = help[:strings.LastIndex(help[:80], " ")] + " ..."
	}
	return help
}
