package resolvers

import (
	"context"
	"testing"

	"tidings/graph"
	"tidings/services"
)

func TestWhichOperationsAreAnsweredJointly(t *testing.T) {
	h := Hot(graph.NewExecutableSchema(graph.Config{}), &Resolver{}).(*hot)
	for query, joint := range map[string]bool{
		`{ viewer { badges { version } } }`:                         true,
		`{ me: viewer { __typename mine: badges { version } id } }`: true,
		`{ __typename }`:                                                  false,
		`{ viewer { id } }`:                                               false,
		`{ viewer { homeFeed { lastId } } }`:                              false,
		`{ viewer { badges { version } homeFeed { lastId } } }`:           false,
		`{ viewer { user { key } } }`:                                     false,
		`subscription { badgesChanged { version } }`:                      false,
		`mutation { markHomeFeedSeen(input: {}) { badges { version } } }`: false,
	} {
		if got := h.Joint(parsed(t, query)) != nil; got != joint {
			t.Errorf("%s: jointly %v", query, got)
		}
	}
}

// Of several requests each gets its own viewer's answer, the one that Quick gives. What takes more than one read is left to Quick.
func TestJointAnswersAreThoseOfQuick(t *testing.T) {
	a := newAPI(t)
	a.World.Quiet(a.World.Fanout)
	h := Hot(graph.NewSchema(graph.Config{Resolvers: a.resolver}), a.resolver).(*hot)
	operations := []string{`{ me: viewer { id badges { id version total { value } } } }`, `{ viewer { badges { homeFeed { display precision } dots { name } } __typename } }`}
	bearer := func(key string, scopes ...services.Scope) context.Context {
		return services.WithViewer(t.Context(), services.Viewer{Key: key, Scopes: scopes})
	}
	alice, bob, carol := bearer("alice", services.ScopeViewer), bearer("bob", services.ScopeViewer), bearer("carol", services.ScopeViewer)
	for name, ctx := range map[string]context.Context{"alice": alice, "bob": bob} { // carol has no document
		if _, ok := h.Quick(parsed(t, operations[0]))(ctx, nil); !ok {
			t.Fatalf("%s is not answered", name)
		}
	}
	var requests []jointRequest
	var quick []func(context.Context, []byte) ([]byte, bool)
	add := func(ctx context.Context, text string) {
		operation := parsed(t, text)
		requests = append(requests, jointRequest{Context: ctx, Operation: h.Joint(operation), Text: []byte("before ")})
		quick = append(quick, h.Quick(operation))
	}
	for _, text := range operations {
		for _, ctx := range []context.Context{alice, carol, bob, alice} {
			add(ctx, text)
		}
	}
	answered := len(requests)
	for _, ctx := range []context.Context{
		t.Context(), bearer("alice"), bearer("", services.ScopeViewer), bearer("nobody", services.ScopeViewer), services.Observe(alice),
	} {
		add(ctx, operations[0])
	}
	h.AnswerJointly(t.Context(), requests)
	for i, one := range requests {
		if one.Context == carol || i >= answered {
			if one.OK || string(one.Text) != "before " {
				t.Errorf("request %d: %v, %s", i, one.OK, one.Text)
			}
			continue
		}
		want, _ := quick[i](one.Context, []byte("before "))
		if !one.OK || string(one.Text) != string(want) {
			t.Errorf("request %d: %v, %s; want %s", i, one.OK, one.Text, want)
		}
	}
	h.AnswerJointly(t.Context(), nil)
}
