package resolvers

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
)

// nonOperationMutations are the mutations that are not in operations, with the reasons.
var nonOperationMutations = map[string]string{
	"ingest":                "it does the operations that its events name",
	"cleanNow":              "it starts a worker of this installation, and is good to repeat",
	"recountBadges":         "it repairs copies of facts and changes none",
	"setFanoutThresholds":   "it is a setting of the installation, not of a user, and is good to repeat",
	"setActivityThresholds": "it is a setting of the installation, not of a user, and is good to repeat",
	"addWebhook":            "it is a setting of the installation: a second one of the name is a CONFLICT",
	"removeWebhook":         "it is a setting of the installation: a second one is NOT_FOUND",
	"rotateWebhookSecret":   "it is a setting of the installation, and its answer is a secret that nothing keeps for a repetition",
	"testWebhook":           "it changes nothing",
	"replayWebhook":         "it starts a worker of this installation, and is good to repeat",
	"defineCategory":        "it is a setting of the installation, not of a user, and is good to repeat",
	"removeCategory":        "it is a setting of the installation: a second one is NOT_FOUND",
	"eraseUser":             "a repetition answers how far the erasure is",
	"registerDevice":        "a browser has its keys, and registers itself; a repetition changes nothing",
	"unregisterDevice":      "a repetition changes nothing",
	"pinAuthorMode":         "it is a setting of the installation, not of a user, and is good to repeat",
}

// schema is the schema that the server serves.
var schema = graph.NewExecutableSchema(graph.Config{}).Schema()

// Every mutation is an operation, or is listed with the reason why not.
func TestEveryMutationIsAnOperation(t *testing.T) {
	fields := slices.DeleteFunc(slices.Clone(schema.Mutation.Fields), func(field *ast.FieldDefinition) bool { return strings.HasPrefix(field.Name, "__") })
	for _, field := range fields {
		name := field.Name
		operation, listed := operations[name]
		if reason := nonOperationMutations[name]; listed == (reason != "") {
			t.Errorf("%s: in the table %t, and not to be there because %q", name, listed, reason)
			continue
		}
		if !listed {
			continue
		}
		input := operation.describe().inputType
		if args := field.Arguments; len(args) != 1 || args[0].Type.String() != input.Name()+"!" {
			t.Errorf("%s takes %v, and the operation %s", name, args, input)
		}
		if key, has := input.FieldByName(idempotencyKeyField); !has || key.Type != reflect.TypeFor[*string]() {
			t.Errorf("%s has no idempotency key", name)
		}
	}
	if want := len(operations) + len(nonOperationMutations); len(fields) != want {
		t.Errorf("the schema has %d mutations, the lists %d", len(fields), want)
	}
}

// Ingest offers every operation, by its name and with the input type of its mutation.
func TestIngestOffersEveryOperation(t *testing.T) {
	offered := schema.Types["IngestAction"].Fields
	if len(offered) != len(operations) || len(ingestActions) != len(operations) {
		t.Errorf("ingest offers %d actions and knows %d, of %d operations", len(offered), len(ingestActions), len(operations))
	}
	for _, field := range offered {
		operation := operations[field.Name]
		if operation == nil {
			t.Errorf("there is no operation %s", field.Name)
			continue
		}
		if input := operation.describe().inputType; field.Type.String() != input.Name() {
			t.Errorf("%s takes a %s, its mutation a %s", field.Name, field.Type, input.Name())
		}
	}
}

// An action that does not fit its operation is found when the program starts.
func TestAnActionThatItsOperationCannotTakeIsRefused(t *testing.T) {
	for what, action := range map[string]struct {
		name string
		of   reflect.Type // the type of the action's input
		fits bool         // the operation of the name takes such an input
	}{
		"no operation":  {"unknown", reflect.TypeFor[*graph.FollowInput](), false},
		"another input": {"follow", reflect.TypeFor[*graph.UnfollowInput](), false},
		"no pointer":    {"follow", reflect.TypeFor[graph.FollowInput](), false},
		"one that fits": {"follow", reflect.TypeFor[*graph.FollowInput](), true},
	} {
		_, err := newIngestAction(reflect.StructField{Tag: reflect.StructTag(`json:"` + action.name + `,omitempty"`), Type: action.of})
		if (err == nil) != action.fits {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// idsIn reads the IDs of users from a field of any type that inputs use for them. A field of another type is noticed when the program
// starts.
func TestIDsInFields(t *testing.T) {
	one, two := "user:a", []string{"user:a", "user:b"}
	for _, c := range []struct {
		value    any
		ids      []string
		readable bool // idsIn knows the type
	}{
		{one, two[:1], true}, {&one, two[:1], true}, {(*string)(nil), nil, true}, {two, two, true}, {[]string(nil), nil, true},
		{graphql.OmittableOf(two), two, true}, {graphql.Omittable[[]string]{}, nil, true},
		{7, nil, false}, {&two, nil, false}, {nil, nil, false},
	} {
		if ids, readable := idsIn(c.value); !slices.Equal(ids, c.ids) || readable != c.readable {
			t.Errorf("%#v has the IDs %v, %t", c.value, ids, readable)
		}
	}
}
