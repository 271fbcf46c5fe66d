package resolvers

import (
	"context"
	"fmt"
	"time"

	"tidings/graph"
	"tidings/services"
	"tidings/services/stream"
	"tidings/services/webhooks"
)

// webhookStates maps the names of states in services/webhooks to the states of the API. A state that is missing here would be an
// empty word, which no client knows.
var webhookStates = map[string]graph.WebhookState{
	"ok": graph.WebhookStateOk, "down": graph.WebhookStateDown, "gone": graph.WebhookStateGone, "idle": graph.WebhookStateIdle,
}

// webhookList lists the webhooks; name is "" for all. Secrets are counted and never shown. The counts of waiting users and of dead
// letters cover all nodes.
func (r *Resolver) webhookList(ctx context.Context, name string) ([]graph.Webhook, error) {
	list, err := r.Webhooks.Endpoints(ctx, name)
	shown := make([]graph.Webhook, len(list))
	for i, e := range list {
		shown[i] = graph.Webhook{
			Name: e.Name, URL: e.URL, Away: e.Filter.OnlyAway, Totals: e.Filter.OnlyTotals, Sources: append([]string{}, e.Filter.Sources...),
			State: webhookStates[e.State()], CreatedAt: e.CreatedAt, Secrets: e.SigningSecrets, Waiting: e.WaitingUsers, Dead: e.DeadLetters,
			OldestUnsentAt: timeOrNull(e.OldestUnsentAt), RetryAt: timeOrNull(e.RetryAt), LastSuccessAt: timeOrNull(e.LastSuccessAt), LastFailureAt: timeOrNull(e.LastFailureAt),
			LastError: orNull(e.LastError),
		}
	}
	return shown, err
}

// webhook reads one webhook by its name, for the payloads of mutations and for the field of one webhook.
func (r *Resolver) webhook(ctx context.Context, name string) (graph.Webhook, error) {
	list, err := r.webhookList(ctx, name)
	if err == nil && len(list) == 0 {
		err = services.Errorf(services.NotFound, "there is no webhook %s", services.Quote(name))
	}
	if err != nil {
		return graph.Webhook{}, err
	}
	return list[0], nil
}

// statusOrNull is an HTTP status, nil for none.
func statusOrNull(status int) *int {
	if status == 0 {
		return nil
	}
	return &status
}

// deadLetters lists the users whose newest change was given up, the newest first. One page is enough: an operator repairs the
// receiver and replays all of them.
func (r *Resolver) deadLetters(ctx context.Context, name string, first *int) ([]graph.WebhookDeadLetter, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	list, err := r.Webhooks.DeadLetters(ctx, name, size)
	shown := make([]graph.WebhookDeadLetter, len(list))
	for i, letter := range list {
		shown[i] = graph.WebhookDeadLetter{
			UserID: services.GlobalID(services.UserType, letter.UserKey), Key: letter.UserKey, Version: stream.VersionText(letter.LastTriedSeq), Attempts: letter.Attempts,
			FirstAt: letter.StartedAt, DeadAt: letter.DeadAt, Status: statusOrNull(letter.Status), Error: letter.Error,
		}
	}
	return shown, err
}

// addWebhook adds a webhook and returns its secret, which cannot be read later. The receiver needs it to check signatures. If it is lost,
// rotateWebhookSecret makes a new one.
func (r *Resolver) addWebhook(ctx context.Context, input graph.AddWebhookInput) (*graph.AddWebhookPayload, error) {
	return runAsAdmin(ctx, r, "addWebhook", input.Name, "", func(ctx context.Context) (*graph.AddWebhookPayload, error) {
		// Neither the address nor the secret is in the record of the act: an address may hold a secret too.
		secret, err := r.Webhooks.Add(ctx, webhooks.NewEndpoint{
			Name: input.Name, URL: input.URL, FromStart: input.FromStart,
			Filter: webhooks.Filter{OnlyAway: input.Away, OnlyTotals: input.Totals, Sources: input.Sources},
		})
		if err != nil {
			return nil, err
		}
		return &graph.AddWebhookPayload{Webhook: nilOnError[graph.Webhook](r)(r.webhook(ctx, input.Name)), Secret: secret}, nil
	})
}

// removeWebhook ends the deliveries, and drops the waiting letters. A second call is NOT_FOUND, so that a mistyped name is not
// taken for a success.
func (r *Resolver) removeWebhook(ctx context.Context, input graph.RemoveWebhookInput) (*graph.RemoveWebhookPayload, error) {
	return runAsAdmin(ctx, r, "removeWebhook", input.Name, "", func(ctx context.Context) (*graph.RemoveWebhookPayload, error) {
		return &graph.RemoveWebhookPayload{Name: input.Name}, r.Webhooks.Remove(ctx, input.Name)
	})
}

// rotateWebhookSecret makes a new secret. During the overlap the former secrets sign too, so that a receiver can change its
// secret without refusing a delivery. An overlap of 0 is for a secret that has leaked.
func (r *Resolver) rotateWebhookSecret(ctx context.Context, input graph.RotateWebhookSecretInput) (*graph.RotateWebhookSecretPayload, error) {
	overlap := fmt.Sprintf("overlap %d h", input.OverlapHours)
	return runAsAdmin(ctx, r, "rotateWebhookSecret", input.Name, overlap, func(ctx context.Context) (*graph.RotateWebhookSecretPayload, error) {
		const most = int(webhooks.MaxSecretOverlap / time.Hour)
		if input.OverlapHours < 0 || input.OverlapHours > most {
			return nil, services.Errorf(services.Invalid, "overlapHours: 0 to %d are allowed, got %d", most, input.OverlapHours)
		}
		secret, err := r.Webhooks.RotateSecret(ctx, input.Name, time.Duration(input.OverlapHours)*time.Hour)
		if err != nil {
			return nil, err
		}
		return &graph.RotateWebhookSecretPayload{Webhook: nilOnError[graph.Webhook](r)(r.webhook(ctx, input.Name)), Secret: secret}, nil
	})
}

// testWebhook sends one event now, from this node. A refusal by the receiver is a result and no error. The event goes through no
// queue and changes no state, so a webhook that is down can be tested too.
func (r *Resolver) testWebhook(ctx context.Context, input graph.TestWebhookInput) (*graph.TestWebhookPayload, error) {
	return runAsAdmin(ctx, r, "testWebhook", input.Name, "", func(ctx context.Context) (*graph.TestWebhookPayload, error) {
		tested, err := r.Webhooks.Test(ctx, input.Name)
		if err != nil {
			return nil, err
		}
		return &graph.TestWebhookPayload{
			Accepted: tested.Error == "", Status: statusOrNull(tested.Status), Error: orNull(tested.Error), TookMs: int(tested.Took.Milliseconds()),
		}, nil
	})
}

// replayWebhook sends dead letters again: of one user, or of all. Each gets the newest change of its user, not the one that
// was refused.
func (r *Resolver) replayWebhook(ctx context.Context, input graph.ReplayWebhookInput) (*graph.ReplayWebhookPayload, error) {
	// The user is not recorded: the erasure of the user would not find the record.
	details := ""
	if input.UserID != nil {
		details = "of one user"
	}
	return runAsAdmin(ctx, r, "replayWebhook", input.Name, details, func(ctx context.Context) (*graph.ReplayWebhookPayload, error) {
		key := ""
		if input.UserID != nil {
			var err error
			if key, err = services.ParseUserID("userId", *input.UserID); err != nil {
				return nil, err
			}
		}
		replayed, err := r.Webhooks.ReplayDeadLetters(ctx, input.Name, key)
		if err != nil {
			return nil, err
		}
		return &graph.ReplayWebhookPayload{Replayed: replayed, Webhook: nilOnError[graph.Webhook](r)(r.webhook(ctx, input.Name))}, nil
	})
}
