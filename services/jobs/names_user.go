package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"tidings/services"
)

// NamesUser reports whether a job of a kind names a user, in its key or in its payload. An erasure of the user then removes the job, or
// waits until it has run. A bound of a range of users names nobody.
type NamesUser func(job Job, user services.UserID) bool

// NoUser is the NamesUser of kinds whose jobs name nobody.
func NoUser(Job, services.UserID) bool { return false }

// UserInKey is the NamesUser of jobs whose key is a user, or names two users by PairKey.
func UserInKey(job Job, user services.UserID) bool {
	first, _, _ := strings.Cut(job.Key, "/")
	return first == services.UserIDText(user) || SecondUserInKey(job, user)
}

// SecondUserInKey is the NamesUser of jobs whose key ends with a user, after something that is not a user.
func SecondUserInKey(job Job, user services.UserID) bool {
	_, second, isPair := strings.Cut(job.Key, "/")
	return isPair && second == services.UserIDText(user)
}

// UserInPayload returns the NamesUser of jobs whose payload names users. The payload has one JSON object of the type P in each line, and
// users returns the users that an object names. A payload of another form, which a node of another version has made, names the user if
// it has the user's ID anywhere.
func UserInPayload[P any](users func(payload P) []services.UserID) NamesUser {
	return func(job Job, user services.UserID) bool {
		decoder := json.NewDecoder(bytes.NewReader(job.Payload))
		decoder.DisallowUnknownFields() // another version may have added a field with a user
		for {
			var payload P
			if err := decoder.Decode(&payload); err != nil {
				return !errors.Is(err, io.EOF) && hasNumber(job.Payload, user)
			}
			if slices.Contains(users(payload), user) {
				return true
			}
		}
	}
}

// namesUser reports whether a job names a user. The kind may be unknown to this node, because a newer node has queued the job.
func (e *Engine) namesUser(job Job, user services.UserID) bool {
	kind, known := e.kinds[job.Kind]
	if !known {
		return mayNameUser(job, user)
	}
	return kind.NamesUser(job, user)
}

// mayNameUser is the NamesUser of jobs of unknown kinds. The job may name a user if a part of its key or any number in its payload is the
// user's ID.
func mayNameUser(job Job, user services.UserID) bool {
	return UserInKey(job, user) || hasNumber(job.Payload, user)
}

// hasNumber reports whether any number in a payload of JSON is the user's ID.
func hasNumber(payload []byte, user services.UserID) bool {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	// A float would make two large IDs equal.
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		// This is the end of the payload, or the payload is not JSON and so has no user.
		if err != nil {
			return false
		}
		if number, isNumber := token.(json.Number); isNumber && number.String() == services.UserIDText(user) {
			return true
		}
	}
}
