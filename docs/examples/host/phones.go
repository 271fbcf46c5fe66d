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

// The icons of closed apps. Tidings sends an event to the webhook when the badges of a user changed, up or down. An event has the
// whole state, so only the newest one counts. Here the row of a phone stands for the phone. An application with real phones puts a
// push for APNs or FCM into a queue instead, in the same transaction.

const (
	webhookName   = "host"           // the webhook's name in Tidings
	webhookPath   = "/tidings"       // the path at which this application receives the webhook
	secretSetting = "webhook secret" // the name of the row of settings that keeps the webhook's secret
)

// EnsureWebhook adds this application's webhook to Tidings, once, and keeps the secret that verifies the events. It tries until
// Tidings answers.
func (a *Application) EnsureWebhook(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		secret, err := a.store.webhookSecret(ctx)
		if err == nil && secret == "" {
			// Tidings shows a secret once. If this process dies between the answer and the INSERT, addWebhook asks for a new secret at
			// the next start.
			if secret, err = a.addWebhook(ctx); err == nil {
				_, err = a.store.ExecContext(ctx, `INSERT INTO settings (name, value) VALUES (?, ?)`, secretSetting, secret)
			}
		}
		if err == nil {
			return
		}
		// Tidings may be down, or its change stream switched off. A person reads the log and corrects that; then the next try
		// succeeds.
		wait := backOff(failures, err)
		log.Printf("no webhooks yet, the next try is in %s: %v", wait.Round(time.Millisecond), err)
		pause(ctx, wait)
	}
}

// addWebhook adds the webhook and returns its secret. If the webhook exists, but its secret was lost because this process died,
// the webhook gets a new secret.
func (a *Application) addWebhook(ctx context.Context) (string, error) {
	var added struct{ AddWebhook struct{ Secret string } }
	err := a.tidings.ask(ctx, bearer{scope: "admin"}, `mutation Add($name: String!, $url: URL!) {
		addWebhook(input: {name: $name, url: $url, totals: true, fromStart: true}) { secret }
	}`, map[string]any{"name": webhookName, "url": a.ownURL + webhookPath}, &added)
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != "CONFLICT" {
		return added.AddWebhook.Secret, err
	}
	// Nobody has the former secret, so it need not stay valid beside the new one.
	var rotated struct{ RotateWebhookSecret struct{ Secret string } }
	if a.tidings.ask(ctx, bearer{scope: "admin"}, `mutation Rotate($name: String!) {
		rotateWebhookSecret(input: {name: $name, overlapHours: 0}) { secret }
	}`, map[string]any{"name": webhookName}, &rotated) != nil {
		return "", err // the first error has the reason, such as that the change stream is off
	}
	return rotated.RotateWebhookSecret.Secret, nil
}

// webhookSecret returns the secret of the webhook; "" before there is one.
func (s *Store) webhookSecret(ctx context.Context) (secret string, err error) {
	err = s.QueryRowContext(ctx, `SELECT value FROM settings WHERE name = ?`, secretSetting).Scan(&secret)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return secret, err
}

// Badges are the badges of a user in a webhook. Of two versions, the greater text is the newer one.
type Badges struct {
	Key     string `json:"key"`
	Version string `json:"version"`
	Total   int    `json:"total"`
	Quiet   bool   `json:"quiet"`  // the user's quiet hours: show no number
	Silent  bool   `json:"silent"` // nothing to alert of
	// Cause is what to tell the user of; nil for nothing.
	Cause *struct {
		Source string  `json:"source"`
		Part   *string `json:"part"` // for example the category of a notification; nil for none
	} `json:"cause"`
}

// iconNumber returns the number that the phone shows; 0 for none.
func (b Badges) iconNumber() int {
	if b.Quiet {
		return 0
	}
	return b.Total
}

// alertText returns the text that the phone shows beside the icon; "" for none.
func (b Badges) alertText() string {
	// A number that fell, or whose items another device has already shown, changes the icon without an alert.
	if b.Silent || b.Cause == nil {
		return ""
	}
	part := ""
	if b.Cause.Part != nil {
		part = *b.Cause.Part
	}
	switch {
	// The texts are the application's. Tidings says only what happened, and in which of its sources.
	case b.Cause.Source == "HOME_FEED":
		return "A new article"
	case part == "LIKE":
		return "Somebody likes your article"
	case part == "FOLLOW":
		return "Somebody follows you"
	}
	return "Something is new"
}

// receiveWebhook receives an event of the webhook. It answers 204 when the event is on disk. After any other answer, or none,
// Tidings sends the event again.
func (a *Application) receiveWebhook(w http.ResponseWriter, r *http.Request) {
	// The signature is over the bytes as they arrived, so they are read before anything parses them.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	secret, err := a.store.webhookSecret(r.Context())
	if err != nil || secret == "" {
		http.Error(w, "no secret yet", http.StatusServiceUnavailable) // Tidings was faster than EnsureWebhook
		return
	}
	// Verify before the body is parsed, so that nothing parses a forged request.
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
	if event.Type == "badges.changed" { // other types, such as webhooks.test, must be accepted too
		if err := a.store.updatePhone(r.Context(), event.Data); err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			log.Printf("a webhook was not kept: %v", err)
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// verify returns an error unless Tidings has signed the event recently: anybody can send a request to this address.
func verify(secret string, body []byte, headers http.Header) error {
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return fmt.Errorf("the secret: %w", err)
	}
	return webhook.Verify(body, headers)
}

// updatePhone sets the icon of a user's phone. It drops the events of erased users, and events that are not newer than the version
// that the phone shows: they came twice or late. Dropped events count as received.
func (s *Store) updatePhone(ctx context.Context, badges Badges) error {
	// The column alerts counts the alerts, so that a test can see that none was shown twice.
	alert, alerts := badges.alertText(), 0
	if alert != "" {
		alerts = 1
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		// The SELECT from users keeps an erased user from getting a phone again. Versions compare as texts.
		shown, err := execChanged(ctx, tx, `INSERT INTO phones (key, version, icon, alerts, alert) SELECT key, ?, ?, ?, ? FROM users WHERE key = ?
			ON CONFLICT (key) DO UPDATE SET version = excluded.version, icon = excluded.icon, alerts = alerts + excluded.alerts,
				alert = CASE excluded.alert WHEN '' THEN alert ELSE excluded.alert END
			WHERE excluded.version > version`, badges.Version, badges.iconNumber(), alerts, alert, badges.Key)
		if err == nil && shown {
			log.Printf("the icon of %s shows %d; %q", badges.Key, badges.iconNumber(), alert)
		}
		return err
	})
}
