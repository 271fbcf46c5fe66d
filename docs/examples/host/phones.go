package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The icons of closed apps. Tidings sends a webhook when the badges of a user changed, up or down; it has the whole state, so only the
// newest one counts. Here the row of a phone is the phone; an application with real ones puts a push for APNs or FCM into
// a queue instead, in the same transaction.

const (
	webhookName   = "host"
	webhookPath   = "/tidings"
	secretSetting = "webhook secret"
)

// AskForWebhooks adds this application's webhook to Tidings, once, and keeps the secret that verifies the events. It tries until Tidings answers.
func (a *Application) AskForWebhooks(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		secret, err := a.store.webhookSecret(ctx)
		if err == nil && secret == "" {
			// Tidings shows a secret once. If this process dies between the answer and the insert, addWebhook asks for a new
			// one.
			if secret, err = a.addWebhook(ctx); err == nil {
				_, err = a.store.ExecContext(ctx, `INSERT INTO settings (name, value) VALUES (?, ?)`, secretSetting, secret)
			}
		}
		if err == nil {
			return
		}
		// Tidings may be away, or its change stream switched off: a person reads the log, and the next try succeeds.
		wait := backOff(failures, err)
		log.Printf("no webhooks yet, the next try is in %s: %v", wait.Round(time.Millisecond), err)
		pause(ctx, wait)
	}
}

// addWebhook returns the secret of the webhook. If it is there, but its secret was lost because this process died, it gets a new one.
func (a *Application) addWebhook(ctx context.Context) (string, error) {
	var added struct{ AddWebhook struct{ Secret string } }
	err := a.tidings.ask(ctx, bearer{scope: "admin"}, `mutation Add($name: String!, $url: URL!) {
		addWebhook(input: {name: $name, url: $url, totals: true, fromStart: true}) { secret }
	}`, map[string]any{"name": webhookName, "url": a.self + webhookPath}, &added)
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != "CONFLICT" {
		return added.AddWebhook.Secret, err
	}
	// The former secret is of no use to anybody, so it need not stay valid beside the new one.
	var rotated struct{ RotateWebhookSecret struct{ Secret string } }
	if a.tidings.ask(ctx, bearer{scope: "admin"}, `mutation Rotate($name: String!) {
		rotateWebhookSecret(input: {name: $name, overlapHours: 0}) { secret }
	}`, map[string]any{"name": webhookName}, &rotated) != nil {
		return "", err // the first error says what is wrong: the change stream is off
	}
	return rotated.RotateWebhookSecret.Secret, nil
}

// webhookSecret is the secret of the webhook, "" before there is one.
func (s *Store) webhookSecret(ctx context.Context) (secret string, err error) {
	err = s.QueryRowContext(ctx, `SELECT value FROM settings WHERE name = ?`, secretSetting).Scan(&secret)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return secret, err
}

// Badges are what a webhook says of a user.
type Badges struct {
	Key     string `json:"key"`
	Version string `json:"version"`
	Total   int    `json:"total"`
	Quiet   bool   `json:"quiet"`  // the user's quiet hours: show no number
	Silent  bool   `json:"silent"` // nothing to alert of
	Cause   *struct {
		Source string  `json:"source"`
		Part   *string `json:"part"`
	} `json:"cause"`
}

// icon is the number that the phone shows, 0 for none.
func (b Badges) icon() int {
	if b.Quiet {
		return 0
	}
	return b.Total
}

// alert is what the phone shows beside the icon; "" for nothing.
func (b Badges) alert() string {
	// A number that fell, or that another device has seen already, changes the icon and rings nothing.
	if b.Silent || b.Cause == nil {
		return ""
	}
	part := ""
	if b.Cause.Part != nil {
		part = *b.Cause.Part
	}
	switch {
	// The texts are the application's: Tidings says what happened, and in which of its sources.
	case b.Cause.Source == "HOME_FEED":
		return "A new article"
	case part == "LIKE":
		return "Somebody likes your article"
	case part == "FOLLOW":
		return "Somebody follows you"
	}
	return "Something is new"
}

// receive takes a webhook. 204 says that it is on disk; after any other answer, or none, Tidings sends it again.
func (a *Application) receive(w http.ResponseWriter, r *http.Request) {
	// The signature is of the bytes as they came, so they are read before anything parses them.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	secret, err := a.store.webhookSecret(r.Context())
	if err != nil || secret == "" {
		http.Error(w, "no secret yet", http.StatusServiceUnavailable) // Tidings was faster than AskForWebhooks
		return
	}
	// Before the body is parsed: what a stranger sends is not looked at.
	if err := verify(secret, body, r.Header); err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var event struct {
		Type string `json:"type"`
		Data Badges `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if event.Type == "badges.changed" { // others, such as webhooks.test, are to be accepted
		if err := a.store.show(r.Context(), event.Data); err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			log.Printf("a webhook was not kept: %v", err)
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// verify is nil if an event is Tidings' own and new: anybody can send a request to this address.
func verify(secret string, body []byte, headers http.Header) error {
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return fmt.Errorf("the secret: %w", err)
	}
	return webhook.Verify(body, headers)
}

// show sets the icon of a user's phone. An event that is not newer than what the phone shows came twice or late, and one
// of a user who is gone is dropped; both count as received.
func (s *Store) show(ctx context.Context, badges Badges) error {
	// alerts counts them, so that a test can see that none was shown twice.
	alert, alerts := badges.alert(), 0
	if alert != "" {
		alerts = 1
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		// From the users: a user who was erased here gets no phone any more. Versions compare as texts.
		shown, err := change(ctx, tx, `INSERT INTO phones (key, version, icon, alerts, alert) SELECT key, ?, ?, ?, ? FROM users WHERE key = ?
			ON CONFLICT (key) DO UPDATE SET version = excluded.version, icon = excluded.icon, alerts = alerts + excluded.alerts,
				alert = CASE excluded.alert WHEN '' THEN alert ELSE excluded.alert END
			WHERE excluded.version > version`, badges.Version, badges.icon(), alerts, alert, badges.Key)
		if err == nil && shown {
			log.Printf("the icon of %s shows %d; %q", badges.Key, badges.icon(), alert)
		}
		return err
	})
}
