package services

// Severity is how much a finding matters.
type Severity int

// The severities, from harmless to harmful.
const (
	Fine    Severity = iota // as it should be
	Warning                 // a node runs, but less well or less safely than possible
	Failure                 // a node does not start, or does not keep its promises
)

// String is the severity in words.
func (s Severity) String() string { return [...]string{"ok", "warning", "failure"}[s] }

// Finding is the outcome of one check of a node's settings or surroundings.
type Finding struct {
	Severity Severity
	Subject  string // the checked part, in one to three words: "database"
	Text     string // the finding, without secrets
	Advice   string // the operator's next step; "" when the severity is Fine
}
