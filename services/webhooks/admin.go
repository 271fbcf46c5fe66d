package webhooks

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// NewEndpoint is an endpoint to add. Its fields never change later: to change an endpoint, remove it and add it again.
type NewEndpoint struct {
	Name      string
	URL       string
	Filter    Filter
	FromStart bool // everybody's present state first; otherwise only later changes
}

// newSecret makes a secret in the form of the Standard Webhooks specification: 32 random bytes, the strength of the signature's
// SHA-256.
func newSecret() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}

// secretsText formats the column secrets of the table.
func secretsText(secrets []secret) string {
	text, err := json.Marshal(secrets)
	if err != nil {
		panic("webhooks: secrets that are not JSON: " + err.Error())
	}
	return string(text)
}

// unknownEndpointError returns the error for a name that no endpoint has.
func unknownEndpointError(name string) error {
	return services.Errorf(services.NotFound, "there is no webhook %s", services.Quote(name))
}

// Add adds an endpoint and returns its secret, which is never shown again. INVALID for a bad name, address or filter; CONFLICT for
// a name that is taken, beyond maxEndpoints, and while the change stream is off: without a writer the endpoint would get nothing,
// and nobody would see why.
func (s *Service) Add(ctx context.Context, e NewEndpoint) (text string, err error) {
	if err := checkName(e.Name); err != nil {
		return "", err
	}
	if _, err := s.sender.guard.CheckURL("url", e.URL); err != nil {
		return "", err
	}
	if err := e.Filter.check(s.cfg.SiteMessageTypes); err != nil {
		return "", err
	}
	if err := s.needStream(ctx); err != nil {
		return "", err
	}
	// Read the last position before the endpoint exists: a change in between is sent to the endpoint, which is the safe side.
	last, _, err := s.cfg.Stream.LastPosition(ctx)
	if err != nil {
		return "", err
	}
	from := last
	if e.FromStart {
		from = 0
	}
	text = newSecret()
	err = s.db.Write(ctx, func(tx *sql.Tx) error { return add(ctx, tx, e, text, last, from) })
	if err != nil {
		return "", err
	}
	// This node looks for endpoints at once; the other nodes find the new one when they look next.
	s.wake()
	return text, nil
}

// add inserts an endpoint. last is the end of the change stream as it was read before the transaction, and from is the position at
// which the endpoint begins.
func add(ctx context.Context, tx *sql.Tx, e NewEndpoint, secretText string, last, from uint64) error {
	count := 0
	if _, err := tx.One(ctx, countWebhooks, nil, &count); err != nil {
		return err
	}
	if count >= maxEndpoints {
		return services.Errorf(services.Conflict, "at most %d webhooks are allowed", maxEndpoints)
	}
	tx.EnforceLimit(endpointLimit, 0, maxEndpoints)
	// last becomes since: no change up to it alerts, even for an endpoint that begins at 0, because everybody's present state is not
	// new.
	added, err := tx.Run(ctx, insertWebhook, e.Name, e.URL, secretsText([]secret{{Text: secretText}}), e.Filter.OnlyAway, e.Filter.OnlyTotals,
		strings.Join(e.Filter.Sources, ","), int64(last), int64(from), tx.Now)
	if err == nil && added == 0 {
		err = services.Errorf(services.Conflict, "name: there is a webhook %s already", services.Quote(e.Name))
	}
	return err
}

// needStream returns an error if no node writes changes. The command line runs without a stream, so a writer elsewhere counts.
func (s *Service) needStream(ctx context.Context) error {
	if s.cfg.Stream.On() {
		return nil
	}
	written, err := s.cfg.Stream.HasWriter(ctx)
	if err != nil || written {
		return err
	}
	return &services.Error{Code: services.Conflict, Reason: services.ReasonFeatureOff,
		Message: "webhooks: the change stream is off, from which events are made: start every node with --changes (TIDINGS_CHANGES=true)"}
}

// Remove removes an endpoint and its letters. NOT_FOUND if there is none of that name. A node that delivers the endpoint loses its
// token with the row, so it cannot record its last round and put a letter back.
func (s *Service) Remove(ctx context.Context, name string) error {
	if checkName(name) != nil {
		return unknownEndpointError(name)
	}
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		removed, err := tx.Run(ctx, deleteWebhook, name)
		if err != nil {
			return err
		}
		if removed == 0 {
			return unknownEndpointError(name)
		}
		_, err = tx.Run(ctx, deleteLetters, name)
		return err
	})
}

// RotateSecret gives an endpoint a new secret and returns it. The former secrets also sign for the overlap, or until their own end if
// that is sooner. NOT_FOUND if there is no endpoint of that name; INVALID for an overlap that is not 0 to MaxSecretOverlap; CONFLICT
// if more than maxSecrets would sign.
func (s *Service) RotateSecret(ctx context.Context, name string, overlap time.Duration) (text string, err error) {
	if overlap < 0 || overlap > MaxSecretOverlap {
		return "", services.Errorf(services.Invalid, "overlap: 0s to %s is allowed", MaxSecretOverlap)
	}
	text = newSecret()
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		// Without the lock two rotations at once would each keep the old secrets, and lose one of the new.
		e, found, err := readEndpoint(ctx, tx, lockWebhook, name)
		if err != nil {
			return err
		}
		if !found {
			return unknownEndpointError(name)
		}
		// The newest secret is first, and has no end.
		secrets := []secret{{Text: text}}
		// A rotation extends no secret: each ends at its own end or after this overlap, whichever is sooner.
		for _, old := range e.secrets {
			if end := tx.Now.Add(overlap); old.Until.IsZero() || end.Before(old.Until) {
				old.Until = end
			}
			if tx.Now.Before(old.Until) {
				secrets = append(secrets, old)
			}
		}
		if len(secrets) > maxSecrets {
			return services.Errorf(services.Conflict, "at most %d secrets sign at once: wait until the overlap of one is over", maxSecrets)
		}
		_, err = tx.Run(ctx, setSecrets, name, secretsText(secrets))
		return err
	})
	if err != nil {
		return "", err
	}
	return text, nil
}

// TestResult is the outcome of Service.Test.
type TestResult struct {
	Status int           // the HTTP status; 0: there was no answer
	Error  string        // why the test failed; "" if the receiver accepted the event
	Took   time.Duration // how long the whole request took
}

// Test sends an event of the type testEvent from this process, once. It takes no part in the delivery: it records nothing, and
// an endpoint that is down or gone can be tested. NOT_FOUND if there is no endpoint of that name.
func (s *Service) Test(ctx context.Context, name string) (TestResult, error) {
	e, found, err := readEndpoint(ctx, s.db, readWebhook, name)
	if err != nil {
		return TestResult{}, err
	}
	if !found {
		return TestResult{}, unknownEndpointError(name)
	}
	// Keep a tenth of the caller's time, to report that the receiver did not answer. Otherwise the caller would get only a timeout.
	if end, some := ctx.Deadline(); some {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)*9/10)
		defer cancel()
	}
	now := s.cfg.Clock.Now()
	text := eventBody(testEvent, now, struct {
		Webhook string `json:"webhook"`
	}{name})
	// The ID is new for each test: receivers drop an ID that they have seen. The client's guard checks the address again: an
	// address that was allowed when it was added may be forbidden now.
	a := s.sender.post(ctx, e.URL, name+"_test_"+rand.Text(), now, text, signingSecrets(e.secrets, now))
	return TestResult{Status: a.status, Error: a.err, Took: a.took}, nil
}

// DeadLetters lists dead letters, the newest first, at most limit. NOT_FOUND if there is no endpoint of that name.
func (s *Service) DeadLetters(ctx context.Context, name string, limit int) ([]Letter, error) {
	if _, found, err := readEndpoint(ctx, s.db, readWebhook, name); err != nil || !found {
		if err == nil {
			err = unknownEndpointError(name)
		}
		return nil, err
	}
	return listLetters(ctx, s.db, deadLetters, name, 0, limit)
}

// ReplayDeadLetters delivers dead letters again, of one user, or of all users if key is "", with the users' newest changes, and
// returns how many. An endpoint whose receiver was gone, or is down, is tried again at once. If key is "", letters that failed and
// are not dead are tried at once too. NOT_FOUND if there is no endpoint of that name, or no user of that key.
func (s *Service) ReplayDeadLetters(ctx context.Context, name, key string) (replayed int, err error) {
	if checkName(name) != nil {
		return 0, unknownEndpointError(name)
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		// The statement also locks the row, so that the endpoint cannot be removed meanwhile.
		found, err := tx.Run(ctx, resumeWebhook, name)
		if err != nil {
			return err
		}
		if found == 0 {
			return unknownEndpointError(name)
		}
		// For one user only the dead letter is replayed: the operator has repaired something for that user.
		if key == "" {
			if replayed, err = tx.Run(ctx, replayAll, name, tx.Now); err == nil {
				_, err = tx.Run(ctx, wakeLetters, name, tx.Now)
			}
			return err
		}
		users, err := people.IDs(ctx, tx, []string{key})
		if err != nil {
			return err
		}
		user, some := users[key]
		if !some {
			return services.Errorf(services.NotFound, "there is no user %s", services.Quote(key))
		}
		// 0 if the user has no dead letter, which is no error.
		replayed, err = tx.Run(ctx, replayOne, name, tx.Now, user)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.wake()
	return replayed, nil
}
