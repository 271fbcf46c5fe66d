package messages

import (
	"fmt"
	"regexp"
	"slices"

	"tidings/services"
)

// Settings are the settings of site messages. A type that is taken out of them is shown nowhere. Its messages are shown again when the
// type comes back.
type Settings struct {
	// New takes the default for none, which is services.DefaultMessageType.
	Types []string `name:"site-message-types" default:"general" placeholder:"LIST" for:"serve,import,webhooks" help:"the types of site messages, 1 to 8, each with a count of its own; the first is the default; messages of a type that is removed from the list are not shown"`
}

// Faults returns the reasons why settings are invalid, by flag.
func (s Settings) Faults() map[string]string {
	return map[string]string{"site-message-types": checkTypes(s.Types)}
}

// typePattern is the form of a type of site messages, which becomes a field of every badge document. It allows no comma,
// because types are given as a list, and no capital letter, because two types that differ only in case would be mistaken for each
// other.
var typePattern = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

// checkTypes returns why types of site messages are invalid, or "". Their number is bounded, because each is one more field of every
// user's document and of every read of it.
func checkTypes(types []string) string {
	// More kinds of messages can be categories of the application, which cost nothing until they are used.
	const most = 8
	if n := len(types); n == 0 || n > most {
		return fmt.Sprintf("1 to %d types are allowed, got %d", most, n)
	}
	for i, kind := range types {
		if !typePattern.MatchString(kind) {
			return services.Quote(kind) + " is not a type: 1 to 32 of a-z, 0-9, '_' and '-' are allowed"
		}
		if slices.Contains(types[:i], kind) {
			return services.Quote(kind) + " is named twice"
		}
	}
	return ""
}
