package services

import (
	"errors"
	"testing"
)

// WithArgument replaces the argument at the beginning of a message, and leaves the given error as it is.
func TestWithArgument(t *testing.T) {
	for _, c := range []struct {
		err     error
		message string
		limit   int
	}{
		{Errorf(NotFound, "id: there is no %s", "post:1"), "ids: there is no post:1", 0},
		{Errorf(Invalid, "user key %q: it is odd", "a b"), `ids: user key "a b": it is odd`, 0},
		{Errorf(Invalid, "1 to %d are allowed", 5), "ids: 1 to 5 are allowed", 5},
		{&Error{Code: Conflict, Message: "events[0].at: it is late", Argument: "other"}, "ids: it is late", 0},
	} {
		before := *c.err.(*Error)
		about, is := WithArgument("ids", c.err).(*Error)
		if !is || about.Message != c.message || about.Argument != "ids" || about.Code != CodeOf(c.err) || about.Limit != c.limit {
			t.Errorf("%v is %+v", c.err, about)
		}
		if *c.err.(*Error) != before {
			t.Errorf("%+v became %v", before, c.err)
		}
	}
	if plain := errors.New("plain"); WithArgument("ids", plain) != plain || WithArgument("ids", nil) != nil {
		t.Error("an error without a code is another one")
	}
}

// The argument and the limit in a message are also in the extensions.
func TestArgumentsAndLimitsOfMessages(t *testing.T) {
	for _, test := range []struct {
		err      error
		argument string
		limit    int
	}{
		{Errorf(Invalid, "body: 1 to %d characters are allowed, got %d", 5000, 6001), "body", 5000},
		{Errorf(Invalid, "%s: up to %d bytes are allowed", "input.posts[7].body", 64), "input.posts[7].body", 64},
		{Errorf(Conflict, "userId: at most %d people can be followed", 2000), "userId", 2000},
		{Errorf(Invalid, "quietHours.offsetMinutes: %d to %d are allowed, got %d", -840, 840, 9000), "quietHours.offsetMinutes", 840},
		{Errorf(Unauthenticated, "Tidings-Act-As: needs a token"), "Tidings-Act-As", 0},
		{Errorf(NotFound, "upTo: there is no %s", "post:1 to 5"), "upTo", 0},
		{Errorf(NotFound, "there is no post %s", "up to 7"), "", 0},
		{Errorf(Invalid, "title and content: at least one of them is needed"), "", 0},
		{Errorf(Internal, "internal error ABC"), "", 0},
		{&Error{Code: Invalid, Message: "it: is so", Argument: "explicit", Limit: 3, Reason: "WHY"}, "explicit", 3},
	} {
		got := test.err.(*Error).Extensions()
		argument, _ := got["argument"].(string)
		limit, _ := got["limit"].(int)
		if argument != test.argument || limit != test.limit || got["code"] != string(CodeOf(test.err)) {
			t.Errorf("%v: %v, want the argument %q and the limit %d", test.err, got, test.argument, test.limit)
		}
		if reason, _ := got["reason"].(string); (reason == reasonLimit) != (test.limit != 0 && reason != "WHY") {
			t.Errorf("%v: the reason %q", test.err, reason)
		}
	}
}
