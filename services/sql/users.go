package sql

import (
	"regexp"

	"tidings/services"
)

// UserStatement is a statement about users in two texts: for one user, which is the case of most reads, and for several. A list of
// one user would take twice the time: PostgreSQL plans such a statement anew on each call, and SQLite makes a table of the list.
type UserStatement struct{ one, several Statement }

// userPhrase matches the phrase {user COLUMN} in a statement's text: the column is one of the users, who are the parameter $1.
var userPhrase = regexp.MustCompile(`\{user ([a-z_.]+)\}`)

// NewUserStatement declares both statements, each under its name.
func NewUserStatement(one, several, text string) UserStatement {
	return UserStatement{
		one:     NewStatement(one, userPhrase.ReplaceAllString(text, "$1 = $$1")),
		several: NewStatement(several, userPhrase.ReplaceAllString(text, "{in $1 $$1 BIGINT}")),
	}
}

// ForUsers is the statement about some users, and its first argument.
func (s UserStatement) ForUsers(users []services.UserID) (Statement, any) {
	if len(users) == 1 {
		return s.one, users[0]
	}
	return s.several, users
}
