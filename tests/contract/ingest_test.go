package contract

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/tests/world"
)

const mutIngest = `mutation($e:[IngestEvent!]!){ingest(events:$e){results{id error{code message}}}}`

// ingestResult is the result of one event.
type ingestResult struct {
	ID    *string // of the object that the event created or named; nil: none
	Error *struct{ Code, Message string }
}

// answer returns the result in the form of an answer, and fails the test if a refused event has the ID of an object.
func (r ingestResult) answer(t *testing.T) (got world.Answer) {
	t.Helper()
	if r.Error == nil {
		return got
	}
	if r.ID != nil {
		t.Errorf("a refused event has the ID %s", *r.ID)
	}
	got.Errors = make([]world.AnswerError, 1)
	got.Errors[0].Message, got.Errors[0].Extensions.Code = r.Error.Message, r.Error.Code
	return got
}

// ingest sends events as the host application, and returns their results in the same order.
func (c *smallNode) ingest(t *testing.T, events ...any) []ingestResult {
	t.Helper()
	var data struct {
		Ingest struct{ Results []ingestResult }
	}
	c.MustAsk("host:ingest", mutIngest, map[string]any{"e": events}, &data)
	if len(data.Ingest.Results) != len(events) {
		t.Fatalf("%d results for %d events", len(data.Ingest.Results), len(events))
	}
	return data.Ingest.Results
}

// ingestEvent makes an event of ingest. The user and the idempotency key are given among the fields of its input.
func ingestEvent(name string, fields ...any) event {
	input := map[string]any{}
	made := event{"do": map[string]any{name: input}}
	for i := 0; i < len(fields); i += 2 {
		switch field := fields[i].(string); field {
		case "as", "key":
			made[field] = fields[i+1]
		default:
			input[field] = fields[i+1]
		}
	}
	return made
}

// An invalid event fails alone: the events before it and after it are applied.
func TestAnInvalidEventFailsAlone(t *testing.T) {
	w := newInputWorld(t)
	var bad []badInput
	var onlyBad, mixed []any
	for _, rows := range w.rows() {
		for _, row := range rows {
			if sent, ok := row.request.(event); ok {
				mixed = append(mixed, ingestEvent("publishPost", "as", "user:dave", "body", fmt.Sprint(len(bad))), sent)
				onlyBad, bad = append(onlyBad, sent), append(bad, row)
			}
		}
	}
	check := func(t *testing.T, row badInput, got ingestResult) {
		t.Run(row.name, func(t *testing.T) { row.want.checkAnswer(t, got.answer(t)) })
	}
	t.Run("among bad events", func(t *testing.T) {
		w.wantNoEffect(t, func(t *testing.T) {
			for i, got := range w.ingest(t, onlyBad...) {
				check(t, bad[i], got)
			}
		})
	})
	t.Run("between good events", func(t *testing.T) {
		w.wantNoEffect(t, func(t *testing.T) { // dave has no followers
			published := []string{}
			for i, got := range w.ingest(t, mixed...) {
				if i%2 == 1 {
					check(t, bad[i/2], got)
				} else if got.Error != nil || got.ID == nil {
					t.Errorf("good event %d: %+v", i/2, got.Error)
				} else {
					published = append([]string{*got.ID}, published...)
				}
			}
			w.SettleJobsAndCaches()
			if diff := cmp.Diff(published, w.ReadWholeFeed("dave", 100)); diff != "" {
				t.Errorf("dave's posts (-want +got):\n%s", diff)
			}
		})
	})
}
