package resolvers

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
)

// notOperations are the mutations that are in no table, with the reasons.
var notOperations = map[string]string{
	"ingest":                "it does the operations that its events name",
	"cleanNow":              "it starts a worker of this installation, and is good to repeat",
	"recountBadges":         "it repairs copies of facts and changes none",
	"setFanoutThresholds":   "it is a setting of the installation, not of a user, and is good to repeat",
	"setActivityThresholds": "it is a setting of the installation, not of a user, and is good to repeat",
	"pinAuthorMode":         "it is a setting of the installation, not of a user, and is good to repeat",
}

// onlyInMutations are the fields of inputs that events lack, and onlyInEvents those that inputs lack, with the reasons.
var (
	onlyInMutations = map[string]string{"markConversationRead.readToken": "a host application is shown no list, and has no token of one"}
	onlyInEvents    = map[string]string{
		"enterConversation.device": "of a mutation the token says it", "leaveConversation.device": "of a mutation the token says it",
	}
)

// schema is the one that is served.
var schema = graph.NewExecutableSchema(graph.Config{}).Schema()

// inputFields prints the types and default values of the fields of an input type, by name.
func inputFields(name string) map[string]string {
	fields := map[string]string{}
	for _, field := range schema.Types[name].Fields {
		fields[field.Name] = fmt.Sprint(field.Type, " ", field.DefaultValue)
	}
	return fields
}

// Every mutation is an operation, or stands in the list of those that are not.
func TestEveryMutationIsAnOperation(t *testing.T) {
	fields := slices.DeleteFunc(slices.Clone(schema.Mutation.Fields), func(field *ast.FieldDefinition) bool { return strings.HasPrefix(field.Name, "__") })
	for _, field := range fields {
		name := field.Name
		operation, listed := operations[name]
		if reason := notOperations[name]; listed == (reason != "") {
			t.Errorf("%s: in the table %t, and not to be there because %q", name, listed, reason)
			continue
		}
		if !listed {
			continue
		}
		_, _, _, input := operation.describe()
		if args := field.Arguments; len(args) != 1 || args[0].Type.String() != input.Name()+"!" {
			t.Errorf("%s takes %v, and the operation %s", name, args, input)
		}
		if key, has := input.FieldByName(idempotencyKey); !has || key.Type != reflect.TypeFor[*string]() {
			t.Errorf("%s has no idempotency key", name)
		}
	}
	if want := len(operations) + len(notOperations); len(fields) != want {
		t.Errorf("the schema has %d mutations, the lists %d", len(fields), want)
	}
}

// Every event is an operation and says what the mutation's input says: the same fields, of the same types and defaults.
func TestEveryEventSaysWhatItsMutationSays(t *testing.T) {
	events := schema.Types["IngestEvent"].Fields
	if len(events) != len(operations) {
		t.Errorf("there are %d events and %d operations", len(events), len(operations))
	}
	for _, field := range events {
		name := field.Name
		operation := operations[name]
		if operation == nil {
			t.Errorf("the event %s is no operation", name)
			continue
		}
		_, by, _, input := operation.describe()
		event, want := inputFields(field.Type.Name()), inputFields(input.Name())
		if _, names := event["as"]; names != (by == forUser) {
			t.Errorf("%s: the event names a user %t", name, names)
		}
		if event["key"] != want["idempotencyKey"] {
			t.Errorf("%s: the key is %q, of the mutation %q", name, event["key"], want["idempotencyKey"])
		}
		for _, said := range []string{"as", "key"} {
			delete(event, said)
		}
		delete(want, "idempotencyKey")
		maps.DeleteFunc(event, func(field, _ string) bool { return onlyInEvents[name+"."+field] != "" })
		maps.DeleteFunc(want, func(field, _ string) bool { return onlyInMutations[name+"."+field] != "" })
		if !maps.Equal(event, want) {
			t.Errorf("%s: the event says %v, the mutation %v", name, event, want)
		}
	}
}

// An event that its operation cannot take is found when the program starts.
func TestAnEventThatItsOperationCannotTakeIsRefused(t *testing.T) {
	type noKey struct{ As, UserID string }
	type noActor struct {
		UserID string
		Key    *string
	}
	type anotherType struct {
		As     string
		UserID *string
		Key    *string
	}
	type anotherField struct {
		As, UserID, Why string
		Key             *string
	}
	type deviceNotAsked struct {
		As, UserID  string
		Key, Device *string
	}
	for what, event := range map[string]struct {
		name string
		of   reflect.Type
		fits bool
	}{
		"no key":             {"follow", reflect.TypeFor[*noKey](), false},
		"no actor":           {"follow", reflect.TypeFor[*noActor](), false},
		"another type":       {"follow", reflect.TypeFor[*anotherType](), false},
		"another field":      {"follow", reflect.TypeFor[*anotherField](), false},
		"a device not asked": {"follow", reflect.TypeFor[*deviceNotAsked](), false},
		"no operation":       {"unknown", reflect.TypeFor[*graph.IngestFollow](), false},
		"an actor for hosts": {"raiseDot", reflect.TypeFor[*graph.IngestFollow](), false},
		"no device":          {"enterConversation", reflect.TypeFor[*graph.IngestJoinConversation](), false},
		"one that fits":      {"follow", reflect.TypeFor[*graph.IngestFollow](), true},
		"with a device":      {"enterConversation", reflect.TypeFor[*graph.IngestEnterConversation](), true},
	} {
		_, err := newIngestEvent(reflect.StructField{Tag: reflect.StructTag(`json:"` + event.name + `,omitempty"`), Type: event.of})
		if (err == nil) != event.fits {
			t.Errorf("%s: %v", what, err)
		}
	}
}
