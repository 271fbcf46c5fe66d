package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// apiClient sends one server the GraphQL requests that are not measured.
type apiClient struct {
	url    string
	client *http.Client
}

func newAPIClient(address string) *apiClient {
	return &apiClient{url: "http://" + address + "/graphql", client: &http.Client{Timeout: time.Minute}}
}

// doGraphQL sends a request with a token and decodes the data of the answer into `into`. If the answer has errors, the first of
// them is returned.
func (a *apiClient) doGraphQL(ctx context.Context, token, query string, variables map[string]any, into any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Data   json.RawMessage
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s: status %d: %w", a.url, response.StatusCode, err)
	}
	if len(answer.Errors) > 0 {
		return fmt.Errorf("%s: %s", a.url, answer.Errors[0].Message)
	}
	return json.Unmarshal(answer.Data, into)
}

// ingestEvent is an event in the form of the GraphQL input IngestEvent.
type ingestEvent map[string]any

// userEvent returns the event of a mutation by a user. who is the key of the user, and mutation the name of the mutation.
func userEvent(who, mutation string, input map[string]any) ingestEvent {
	return ingestEvent{"as": "user:" + who, "do": map[string]any{mutation: input}}
}

// hostEvent returns an event of the host application itself, for no user.
func hostEvent(mutation string, input map[string]any) ingestEvent {
	return ingestEvent{"do": map[string]any{mutation: input}}
}

// followEvent returns the event in which a user follows another.
func followEvent(follower, followee string) ingestEvent {
	return userEvent(follower, "follow", map[string]any{"userId": "user:" + followee})
}

// publishEvent returns the event in which who publishes a post.
func publishEvent(who, body string) ingestEvent {
	return userEvent(who, "publishPost", map[string]any{"body": body})
}

// likeEvent returns the event in which who likes a post, given by its ID.
func likeEvent(who, post string) ingestEvent {
	return userEvent(who, "likePost", map[string]any{"postId": post})
}

// mentionEvent returns the event in which a user publishes a post that mentions another.
func mentionEvent(author, mentioned string) ingestEvent {
	return userEvent(author, "publishPost", map[string]any{"body": "Have you seen this?", "mentions": []string{"user:" + mentioned}})
}

// commentEvent returns the event in which who comments on a post, given by its ID.
func commentEvent(who, post string) ingestEvent {
	return userEvent(who, "publishPost", map[string]any{"body": "I think so too.", "parentId": post})
}

// profileEvent returns the event that sets the name and the avatar of a user.
func profileEvent(who, name string) ingestEvent {
	return userEvent(who, "setProfile", map[string]any{"name": name, "avatarUrl": "https://images.example/" + who + ".jpg"})
}

const (
	hostToken       = "dev:host:ingest"    // of the host application
	adminToken      = "dev:operator:admin" // of an operator
	ingestBatchSize = 500                  // the most events that one ingest takes
)

// ingest sends events in batches and returns the IDs that they made. The first event that fails is returned as the error.
func (a *apiClient) ingest(ctx context.Context, events []ingestEvent) (ids []string, err error) {
	const mutation = `mutation($events: [IngestEvent!]!) { ingest(events: $events) { results { id error { code message } } } }`
	for len(events) > 0 {
		batch := events[:min(ingestBatchSize, len(events))]
		events = events[len(batch):]
		var answer struct {
			Ingest struct {
				Results []struct {
					ID    string
					Error *struct{ Code, Message string }
				}
			}
		}
		if err := a.doGraphQL(ctx, hostToken, mutation, map[string]any{"events": batch}, &answer); err != nil {
			return ids, fmt.Errorf("ingest: %w", err)
		}
		if got := len(answer.Ingest.Results); got != len(batch) {
			return ids, fmt.Errorf("ingest: %d results for %d events", got, len(batch))
		}
		for i, result := range answer.Ingest.Results {
			if result.Error != nil {
				return ids, fmt.Errorf("ingest: event %v: %s %s", batch[i], result.Error.Code, result.Error.Message)
			}
			ids = append(ids, result.ID)
		}
	}
	return ids, nil
}

// waitForJobs waits until no job waits or runs. It fails if a job has failed for good, or if the number of jobs reaches no new low
// for a minute.
func (a *apiClient) waitForJobs(ctx context.Context) error { return a.waitForJobsDownTo(ctx, 0) }

// waitForJobsDownTo waits until at most left jobs wait or run. The caller uses it when some jobs are due much later. It fails if a job
// has failed for good, or if the number of jobs reaches no new low for a minute.
func (a *apiClient) waitForJobsDownTo(ctx context.Context, left int) error {
	const patience = time.Minute
	least, changed := -1, time.Now()
	for {
		var answer struct {
			Admin struct {
				Jobs struct{ Waiting, Dead int }
			}
		}
		if err := a.doGraphQL(ctx, adminToken, `{ admin { jobs { waiting dead } } }`, nil, &answer); err != nil {
			return err
		}
		jobs := answer.Admin.Jobs
		if jobs.Dead > 0 {
			return fmt.Errorf("%d jobs failed for good", jobs.Dead)
		}
		if jobs.Waiting <= left {
			return nil
		}
		if least < 0 || jobs.Waiting < least {
			least, changed = jobs.Waiting, time.Now()
		}
		if time.Since(changed) > patience {
			return fmt.Errorf("%d jobs wait, and not one was done in %v", jobs.Waiting, patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
