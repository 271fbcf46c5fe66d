package console

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"tidings/services"
)

// overviewDocument is the GraphQL document of the overview. Like the other documents, it uses the public API. The types beside a document
// have the names of its fields. A field that may be null is a pointer: it is nil when it could not be read, and the page leaves its part
// out.
const overviewDocument = `{ admin {
	jobs { waiting dead oldestMs }
	fanout { bigFollowers hugeFollowers waiting lagMs }
	activity { idleAfterHours dormantAfterHours }
	cleaner { running lastRunAt freed { keys dormant } }
} }`

// overviewAnswer is the answer to overviewDocument. Lags and ages are numbers of milliseconds, as in the API; words.go makes them
// readable.
type overviewAnswer struct {
	Admin *struct {
		Jobs *struct {
			Waiting, Dead int
			OldestMs      int64 // the time since the oldest waiting job was due
		}
		Fanout *struct {
			BigFollowers, HugeFollowers, Waiting int   // the thresholds of the modes, and the jobs that wait
			LagMs                                int64 // the age of the oldest post whose fan-out has not ended
		}
		Activity struct{ IdleAfterHours, DormantAfterHours int }
		Cleaner  *struct {
			Running   bool
			LastRunAt *time.Time
			Freed     struct{ Keys, Dormant int } // by the last run: the keys, and the dormant users whose data was removed
		}
	}
}

// overview shows the state of the installation: GraphQL's data for operators, and the NodeState that this node knows in addition. The
// page works while an engine is down, because operators need it most then.
func (c *Console) overview(v *pageRequest) {
	var body struct {
		overviewAnswer
		State NodeState
	}
	// Both parts are shown as far as they could be read.
	c.executeQuery(v, v.ctx, overviewDocument, nil, &body.overviewAnswer)
	body.State = c.cfg.NodeState(v.ctx)
	v.page.Faults = append(v.page.Faults, body.State.Faults...)
	v.page.Title, v.page.Here, v.page.Body = "Overview", rootPath, body
	c.show(v, http.StatusOK, "overview")
}

// webhooksDocument reads all webhooks, with the fields that the page shows. A field that is added to one of the types below must be added
// to its document too.
const webhooksDocument = `{ admin { webhooks {
	name url away totals sources state createdAt secrets waiting dead oldestUnsentAt retryAt lastSuccessAt lastFailureAt lastError
} } }`

// deadLettersDocument reads the newest dead letters of one webhook.
const deadLettersDocument = `query ($name: String!) { admin { webhookDeadLetters(name: $name, first: 50) {
	userId key version attempts firstAt deadAt status error
} } }`

// webhook is one webhook as the page shows it. DeadLetters is read by a document of its own, so it is not in the JSON.
type webhook struct {
	Name, URL, State string   // State is OK, DOWN, GONE or IDLE
	Away, Totals     bool     // it gets only changes of users without an open socket; only changes of the total and what alerts
	Sources          []string // the sources whose changes are sent; empty: all sources
	CreatedAt        time.Time
	Secrets, Waiting int          // the number of secrets that sign, and of users whose newest change waits
	Dead             int          // the number of users with a dead letter
	OldestUnsentAt   *time.Time   // nil: no change waits
	RetryAt          *time.Time   // nothing is sent before; nil: no such time
	LastSuccessAt    *time.Time   // of a delivery; nil: nothing was delivered
	LastFailureAt    *time.Time   // nil: nothing failed
	LastError        *string      // nil: nothing failed
	DeadLetters      []deadLetter `json:"-"`
}

// deadLetter is a change of a user that the receiver refused for a day: see the glossary.
type deadLetter struct {
	UserID, Key, Version, Error string // of the user; the version of the badges; why the last attempt failed
	Attempts                    int
	FirstAt, DeadAt             time.Time // of the first attempt, and when the letter was given up
	Status                      *int      // of HTTP, in the last answer of the receiver; nil: there was no answer
}

// webhooks shows the page of all webhooks, without the outcome of an act.
func (c *Console) webhooks(v *pageRequest) { c.showWebhooks(v, http.StatusOK) }

// showWebhooks shows all webhooks, each with its newest dead letters. After an act, status is the status of the act. The answer
// to a form is this page and not a redirect, because the page shows the outcome. Reloading it repeats the act only after the
// browser has asked and the operator has agreed.
func (c *Console) showWebhooks(v *pageRequest, status int) {
	var answer struct {
		Admin *struct{ Webhooks []webhook }
	}
	c.executeQuery(v, v.ctx, webhooksDocument, nil, &answer)
	var list []webhook
	if answer.Admin != nil {
		list = answer.Admin.Webhooks
	}
	// A page shows the dead letters of the newest 50 users. The API has the dead letters of the other users.
	for i := range list {
		// The address is shortened before the template sees it, because it can contain a secret of the receiver.
		list[i].URL = redactedURL(list[i].URL)
		if list[i].Dead == 0 {
			continue
		}
		// Each webhook with dead letters needs one more document. Most webhooks have no dead letters.
		var letters struct {
			Admin *struct{ WebhookDeadLetters []deadLetter }
		}
		c.executeQuery(v, v.ctx, deadLettersDocument, map[string]any{"name": list[i].Name}, &letters)
		if letters.Admin != nil {
			list[i].DeadLetters = letters.Admin.WebhookDeadLetters
		}
	}
	// A list that could not be read is shown empty, with a fault above it.
	v.page.Title, v.page.Here, v.page.Body = "Webhooks", rootPath+"/webhooks", list
	c.show(v, status, "webhooks")
}

// testWebhook sends one test event to a webhook now, and shows the receiver's answer. The page has the status of the mutation: if the
// receiver refuses the test, the page shows that and has status 200.
func (c *Console) testWebhook(v *pageRequest) {
	name := v.r.PostFormValue("name")
	var answer struct {
		TestWebhook *struct {
			Accepted bool
			Status   *int
			Error    *string
			TookMs   int
		}
	}
	status := c.executeMutation(v, `mutation ($name: String!) { testWebhook(input: {name: $name}) { accepted status error tookMs } }`, map[string]any{"name": name}, &answer)
	// tested is nil if the mutation was refused: then executeMutation has set the error of the page.
	if tested := answer.TestWebhook; tested != nil && tested.Accepted {
		v.page.Notice = fmt.Sprintf("The receiver of %s accepted the test after %d ms.", name, tested.TookMs)
	} else if tested != nil && tested.Error != nil {
		v.page.Error = fmt.Sprintf("The test of %s failed after %d ms: %s", name, tested.TookMs, *tested.Error)
	}
	c.showWebhooks(v, status)
}

// replayWebhook sends the dead letters of a webhook again, those of one user or of all. An empty field of the form means all users.
func (c *Console) replayWebhook(v *pageRequest) {
	name, variables := v.r.PostFormValue("name"), map[string]any{}
	variables["name"] = name
	// Without a user, the dead letters of all users are sent again.
	if user := v.r.PostFormValue("user"); user != "" {
		variables["user"] = user
	}
	var answer struct{ ReplayWebhook *struct{ Replayed int } }
	status := c.executeMutation(v, `mutation ($name: String!, $user: ID) { replayWebhook(input: {name: $name, userId: $user}) { replayed } }`, variables, &answer)
	if answer.ReplayWebhook != nil {
		v.page.Notice = fmt.Sprintf("%d dead letters of %s are sent again.", answer.ReplayWebhook.Replayed, name)
	}
	c.showWebhooks(v, status)
}

// executeMutation executes a mutation, and returns the status for the page that shows its outcome: the status of the first error.
// Only the first error is shown, because each document here has one mutation. The data of the answer is written into into.
func (c *Console) executeMutation(v *pageRequest, document string, variables map[string]any, into any) (status int) {
	status = http.StatusOK
	for _, err := range c.cfg.Execute(v.ctx, document, variables, into) {
		if status == http.StatusOK {
			status, v.page.Error = statusOf(err), errorText(err)
		}
	}
	return status
}

// actsDocument reads a page of 50 acts, which fit on a screen or two.
const actsDocument = `query ($after: String) { admin { acts(first: 50, after: $after) {
	list { at actor action target details outcome code } cursor hasMore
} } }`

// act is one act of an operator, as the page shows it.
type act struct {
	At                           time.Time
	Actor, Target, Details, Code *string // nil: the act has none
	Action, Outcome              string
}

// acts shows the acts of operators, the newest first. The cursor of a page is in its address, and contains no secret. Reading
// acts is not recorded as an act.
func (c *Console) acts(v *pageRequest) {
	var answer struct {
		Admin *struct {
			Acts *struct {
				List    []act
				Cursor  *string
				HasMore bool
			}
		}
	}
	// Without a cursor the variable is absent: an empty cursor would be refused as invalid.
	variables := map[string]any{}
	after := v.r.URL.Query().Get("after")
	if after != "" {
		variables["after"] = after
	}
	var body struct {
		Acts []act
		Next string // the cursor of the next page
		Late bool   // it is not the first page
	}
	status := http.StatusOK
	// A wrong cursor is a mistake in the address. It is shown as an error of the page and not as a part that could not be read.
	if errs := c.cfg.Execute(v.ctx, actsDocument, variables, &answer); len(errs) > 0 {
		status, v.page.Error = statusOf(errs[0]), errorText(errs[0])
	} else {
		if body.Acts = answer.Admin.Acts.List; answer.Admin.Acts.HasMore {
			// More acts follow, so the list has a last act, and the answer has its cursor.
			body.Next = *answer.Admin.Acts.Cursor
		}
	}
	// A later page links back to the newest acts.
	body.Late = after != ""
	v.page.Title, v.page.Here, v.page.Body = "Acts", rootPath+"/acts", body
	c.show(v, status, "acts")
}

// observingContext returns a context that observes a user: reads with it return what the user would see, and are not a visit. The
// scopes are the scopes of an application that acts for the user. The subject is the operator, so that records name the operator.
// Only reads are executed with this context.
func observingContext(v *pageRequest, key string) context.Context {
	viewer := services.Viewer{Key: key, Subject: v.viewer.Subject, Scopes: []services.Scope{services.ScopeViewer, services.ScopeIngest}}
	return services.Observe(services.WithViewer(v.ctx, viewer))
}
