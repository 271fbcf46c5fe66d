package graph

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// parse returns the operation of a document.
func parse(t *testing.T, text string) *ast.OperationDefinition {
	t.Helper()
	doc, faults := gqlparser.LoadQueryWithRules(NewSchema(Config{}).Schema(), text, nil)
	if faults != nil {
		t.Fatal(faults)
	}
	return doc.Operations[0]
}

// A compiled operation is forgotten with its document, and does not keep the document in memory.
func TestPlansAreForgottenWithTheirDocuments(t *testing.T) {
	plans := NewSchema(Config{}).(compilingSchema).compiledOperations
	count := func() int {
		plans.mu.RLock()
		defer plans.mu.RUnlock()
		return len(plans.known)
	}
	kept := parse(t, `{ viewer { id } }`)
	for i := range 50 {
		for _, text := range []string{
			"{ viewer { v%d: homeFeed { edges { node { id likeCount parent { id } } } } } }", "mutation { v%d: likePost(input: {postId: \"post:a\"}) { changed } }",
			"{ v%d: __typename viewer { id id } }", "subscription { v%d: badgesChanged { version } }",
		} {
			plans.Of(parse(t, fmt.Sprintf(text, i)))
		}
	}
	plan := plans.Of(kept)
	for deadline := time.Now().Add(30 * time.Second); count() > 1; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d plans are left", count())
		}
	}
	if plans.Of(kept) != plan || plan == nil {
		t.Error("a plan in use was forgotten")
	}
}

// Requests that meet a document for the first time at once get one plan.
func TestConcurrentRequestsGetOnePlan(t *testing.T) {
	operation := parse(t, `{ viewer { id } }`)
	for range 50 {
		plans := NewPlanCache(func(*ast.OperationDefinition) *int { runtime.Gosched(); return new(int) })
		made := make([]*int, 8)
		var all sync.WaitGroup
		for i := range made {
			all.Go(func() { made[i] = plans.Of(operation) })
		}
		all.Wait()
		for _, one := range made {
			if one != made[0] || one == nil {
				t.Fatalf("the plans are %v", made)
			}
		}
	}
}
