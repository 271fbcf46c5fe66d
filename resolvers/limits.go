package resolvers

import (
	"context"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
	"tidings/services/ratelimit"
)

// Limits charges budgets of a limiter: an address pays for its requests, and a viewer for their operations. The host application and
// operators have budgets of their own, however many users they act for. Limits implements transport.Limits. A check uses only memory
// and takes no round trip, so it is done before any other work. A refusal is RATE_LIMITED, and says when to retry.
type Limits struct{ Limiter *ratelimit.Limiter }

// hostBudgetSubject is the subject of all tokens with the scope ingest, and adminBudgetSubject is the subject of all tokens with
// the scope admin. They are no keys of users. A user may have such a key, but shares nothing with them: the budgets of the host
// application and the budget ADMIN have only these subjects.
const (
	hostBudgetSubject  = "host"
	adminBudgetSubject = "admins"
)

// extraMutationBudgets has the second budget, beside WRITES, to which some mutations are charged, because they cost other users
// more than a usual write does. A follow writes into a feed and may notify; a conversation and its members write a row for each of
// up to 500 users.
var extraMutationBudgets = map[string]ratelimit.Budget{
	"follow": ratelimit.Follows, "unfollow": ratelimit.Follows,
	"createConversation": ratelimit.Conversations, "addMembers": ratelimit.Conversations,
}

// ChargeAddress charges one request. Several users may share one address, so the budget of an address is far larger than that of a
// user.
func (l Limits) ChargeAddress(address string) error {
	return l.Limiter.Take(ratelimit.Address, address, 1)
}

// ChargeSocket charges one socket to its user. Tokens of the host application can open any number of sockets, because a gateway of the
// application opens the sockets of many users.
func (l Limits) ChargeSocket(viewer services.Viewer) error {
	if viewer.Has(services.ScopeIngest) {
		return nil
	}
	return l.Limiter.Take(ratelimit.Sockets, viewer.Key, 1)
}

// freePayloadCost is how much of a mutation's cost is not charged to the budget of reads, for each of its fields. It is enough for
// a usual payload: the objects that the mutation has changed, and the viewer's badges.
const freePayloadCost = 1000

// ChargeOperation charges a mutation for its fields and for the events of an ingest, and any other operation for its cost. A
// mutation with a large payload is charged for the reading too: otherwise a client could read without limit by mutations that
// change nothing. Without a token the address is charged. The transport calls ChargeOperation after it has checked the document and
// before the execution. A refused operation costs its subject nothing, except that an operator may have been charged to ADMIN.
func (l Limits) ChargeOperation(ctx context.Context, address string, operation *graphql.OperationContext, cost int) error {
	who := payerOf(ctx, address)
	// An operator is charged twice: to ADMIN, and then like any user.
	if who.operator {
		if err := l.Limiter.Take(ratelimit.Admin, adminBudgetSubject, 1); err != nil {
			return err
		}
	}
	if operation.Operation.Operation != ast.Mutation {
		return l.Limiter.Take(who.reads, who.subject, cost)
	}
	return l.Limiter.TakeAll(who.subject, mutationSpendings(operation, who.reads, who.writes, cost)...)
}

// ChargeEvent charges an event of a subscription for its cost. Other users cause the events, so events have a budget of their own:
// what others do must not use up the budget for a user's queries. The bound is on all of a user's subscriptions together, however
// many they open.
func (l Limits) ChargeEvent(ctx context.Context, address string, cost int) error {
	who := payerOf(ctx, address)
	return l.Limiter.Take(who.events, who.subject, cost)
}

// payer is the subject that pays for an operation, and its budgets.
type payer struct {
	subject               string           // the key of the budgets in the limiter: of a user, the host application or an address
	reads, writes, events ratelimit.Budget // the budgets for reading, for mutations and for events of subscriptions
	operator              bool             // whether ADMIN is charged too
}

// payerOf returns who pays for an operation. Without a token the address pays.
func payerOf(ctx context.Context, address string) payer {
	viewer, err := services.ViewerFrom(ctx)
	switch {
	case err != nil:
		// No key of a user begins with a space.
		return payer{subject: " " + address, reads: ratelimit.Reads, writes: ratelimit.Writes, events: ratelimit.Events}
	case viewer.Has(services.ScopeIngest):
		return payer{subject: hostBudgetSubject, reads: ratelimit.HostReads, writes: ratelimit.HostWrites, events: ratelimit.HostEvents}
	default:
		return payer{
			subject: viewer.Key, reads: ratelimit.Reads, writes: ratelimit.Writes, events: ratelimit.Events,
			operator: viewer.Has(services.ScopeAdmin),
		}
	}
}

// mutationSpendings returns the charges of a mutation to the budgets of its subject. They are taken all together or not at all,
// because a document is never executed in part. The fields are collected as the executor does, so that fields in fragments and
// under aliases count, and fields that @skip leaves out do not.
func mutationSpendings(operation *graphql.OperationContext, reads, writes ratelimit.Budget, cost int) []ratelimit.Spending {
	spendings := []ratelimit.Spending{{Budget: writes}, {Budget: reads, Amount: cost}}
	for _, field := range graphql.CollectFields(operation, operation.Operation.SelectionSet, []string{"Mutation"}) {
		spendings[0].Amount += chargedWrites(field, operation)
		spendings[1].Amount -= freePayloadCost // TakeAll leaves out a budget whose amount is negative
		budget, bounded := extraMutationBudgets[field.Name]
		// For the host application, all writes are charged to HOST_WRITES alone.
		if !bounded || writes == ratelimit.HostWrites {
			continue
		}
		at := slices.IndexFunc(spendings, func(s ratelimit.Spending) bool { return s.Budget == budget })
		if at < 0 {
			at, spendings = len(spendings), append(spendings, ratelimit.Spending{Budget: budget})
		}
		spendings[at].Amount++
	}
	return spendings
}

// chargedWrites returns how many writes a mutation field is charged for: for ingest the number of its events, but at least 1, and 1
// for any other. An event that is refused later counts too.
func chargedWrites(field graphql.CollectedField, operation *graphql.OperationContext) int {
	if field.Name != "ingest" {
		return 1
	}
	if list, ok := field.ArgumentMap(operation.Variables)["events"].([]any); ok {
		return max(1, len(list))
	}
	return 1
}
