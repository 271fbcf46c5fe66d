package resolvers

import (
	"context"
	"slices"

	"tidings/graph"
	"tidings/services"
	"tidings/services/acts"
)

// runAsAdmin runs an act of an operator: it checks that the token has the scope admin, and records the act. Every mutation that
// needs the scope calls runAsAdmin, and so does the export of a user. target and details record the object and the values of the
// act; they never contain a secret. work runs once, and the record of its outcome is written together with its own writes: see
// acts.Service.Do. An act that cannot be recorded is not done. The record has the subject of the token and not the user that the
// request acts for, because an operator may act for somebody else. runAsAdmin is generic, because each mutation has a payload type
// of its own.
func runAsAdmin[P any](ctx context.Context, r *Resolver, action, target, details string, work func(ctx context.Context) (*P, error)) (payload *P, err error) {
	viewer, err := r.bearerWithScope(ctx, services.ScopeAdmin)
	if err != nil {
		return nil, err
	}
	err = r.Acts.Do(ctx, acts.Act{Actor: viewer.Subject, Action: action, Target: target, Details: details}, func(ctx context.Context) (err error) {
		payload, err = work(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return payload, nil
}

// userIDOrEmpty is the target of an act on a user; "" if the text is not the ID of a user. Such a text could be anything, also the
// name of a person, and the erasure of that person would not find it in the record. The work itself refuses such an ID, so the act
// is recorded as failed, without a target.
func userIDOrEmpty(id string) string {
	if _, err := services.ParseUserID("userId", id); err != nil {
		return ""
	}
	return id
}

// tokenSubject is the user or application that the token of a request names. It is the one who sends the request, also when that
// one acts for another user.
func tokenSubject(ctx context.Context) string {
	viewer, err := services.ViewerFrom(ctx)
	if err != nil {
		return ""
	}
	return viewer.Subject
}

// isOperator reports whether the request has a token of an operator. It is for fields that the host application may use too. A
// token with both scopes is the application's. Its calls are not recorded as acts: thousands of them would bury the acts of people.
func isOperator(ctx context.Context) bool {
	viewer, err := services.ViewerFrom(ctx)
	return err == nil && viewer.Has(services.ScopeAdmin) && !viewer.Has(services.ScopeIngest)
}

// acts returns a page of the acts of operators, the newest first. The page has no edges, and so it has only one cursor: that of its
// last act. Reading the acts is not recorded as an act.
func (r *Resolver) acts(ctx context.Context, first *int, after *string) (*graph.AdminActs, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	before := services.MaxSortableID
	if after != nil {
		position, err := actCursor.parse("after", 0, *after)
		if err != nil {
			return nil, err
		}
		before = services.SortableID(position)
	}
	// The read has one act more than the page, to know whether another page follows.
	list, err := r.Acts.List(ctx, before, size+1)
	if err != nil {
		return nil, err
	}
	page := &graph.AdminActs{List: []graph.AdminAct{}, HasMore: len(list) > size}
	for _, act := range list[:min(size, len(list))] {
		page.List = append(page.List, graphAct(act))
		page.Cursor = new(actCursor.text(0, uint64(act.ID)))
	}
	return page, nil
}

// graphAct is an act as the API shows it. An outcome that is neither OutcomeDone nor OutcomeStarted is the code of the error with
// which the act failed. An act that stays STARTED was interrupted when its node stopped: its outcome is unknown.
func graphAct(act acts.Act) graph.AdminAct {
	shown := graph.AdminAct{
		At: act.ID.Time(), Actor: orNull(act.Actor), Action: act.Action, Target: orNull(act.Target), Details: orNull(act.Details),
		Outcome: graph.AdminActOutcomeFailed,
	}
	at := slices.Index([]string{acts.OutcomeDone, acts.OutcomeStarted}, act.Outcome)
	if at < 0 {
		shown.Code = &act.Outcome
	} else {
		shown.Outcome = []graph.AdminActOutcome{graph.AdminActOutcomeDone, graph.AdminActOutcomeStarted}[at]
	}
	return shown
}
