package graph

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"pgregory.net/rapid"

	"tidings/services"
)

// builtIn reports whether a definition belongs to GraphQL itself.
func builtIn(definition *ast.Definition) bool {
	return definition.BuiltIn || strings.HasPrefix(definition.Name, "__")
}

// namesWithoutDescription lists every type, field, argument and value of a schema without a description.
func namesWithoutDescription(schema *ast.Schema) (missing []string) {
	for _, definition := range schema.Types {
		if builtIn(definition) {
			continue
		}
		if definition.Description == "" {
			missing = append(missing, definition.Name)
		}
		for _, field := range definition.Fields {
			if strings.HasPrefix(field.Name, "__") {
				continue
			}
			if field.Description == "" {
				missing = append(missing, definition.Name+"."+field.Name)
			}
			for _, argument := range field.Arguments {
				if argument.Description == "" && argument.Name != "input" {
					missing = append(missing, definition.Name+"."+field.Name+"("+argument.Name+")")
				}
			}
		}
		for _, value := range definition.EnumValues {
			if value.Description == "" {
				missing = append(missing, definition.Name+"."+value.Name)
			}
		}
	}
	return missing
}

// schema is a copy of the contract that a test may change.
func schema() *ast.Schema { return gqlparser.MustLoadSchema(sources...) }

func TestEverythingIsDescribed(t *testing.T) {
	for _, missing := range namesWithoutDescription(schema()) {
		t.Errorf("%s has no description", missing)
	}
}

// namesWithoutDescription finds missing descriptions.
func TestMissingDescriptionsAreFound(t *testing.T) {
	damaged := schema()
	damaged.Types["Badges"].Description = ""
	damaged.Types["Badges"].Fields.ForName("total").Description = ""
	damaged.Types["Precision"].EnumValues.ForName("STALE").Description = ""
	damaged.Types["Viewer"].Fields.ForName("homeFeed").Arguments.ForName("first").Description = ""
	damaged.Types["FollowInput"].Fields.ForName("userId").Description = ""
	damaged.Types["IngestAction"].Fields.ForName("follow").Description = ""
	damaged.Types["FollowInput"].Description, damaged.Types["FollowPayload"].Description, damaged.Types["Query"].Description = "", "", ""
	damaged.Types["Post"].Fields.ForName("id").Description = ""
	if missing := namesWithoutDescription(damaged); len(missing) != 10 {
		t.Errorf("found %v", missing)
	}
}

// Every action of ingest is a mutation of the same name with the same input, so that developers learn each input once. And every
// mutation is an action, with a few exceptions.
func TestIngestHasTheInputsOfTheMutations(t *testing.T) {
	types := schema().Types
	for _, action := range types["IngestAction"].Fields {
		if mutation := types["Mutation"].Fields.ForName(action.Name); mutation == nil || mutation.Arguments[0].Type.Name() != action.Type.String() {
			t.Errorf("%s of ingest is not the mutation of that name", action.Name)
		}
	}
	for _, mutation := range types["Mutation"].Fields {
		// Acts of operators concern the installation. They are not facts of an application, so they are not events. All of them
		// may be repeated, so they need no idempotency key.
		if mutation.Name == "ingest" || strings.Contains(mutation.Description, "Needs the scope admin.") {
			continue
		}
		// Only the browser knows the keys of its subscription. These mutations are no events. Repeating one changes nothing, so it
		// needs no idempotency key.
		if mutation.Name == "registerDevice" || mutation.Name == "unregisterDevice" {
			continue
		}
		if types["IngestAction"].Fields.ForName(mutation.Name) == nil {
			t.Errorf("the mutation %s is no action of ingest", mutation.Name)
		}
		input := mutation.Arguments.ForName("input")
		if input == nil || types[input.Type.Name()].Fields.ForName("idempotencyKey") == nil {
			t.Errorf("the mutation %s takes no idempotency key", mutation.Name)
		}
		if mutation.Type.NonNull || !strings.HasSuffix(mutation.Type.Name(), "Payload") {
			t.Errorf("the mutation %s answers %s", mutation.Name, mutation.Type)
		}
	}
}

// The enums of the schema list the same values as the constants of services.
func TestEnumsEqualTheConstants(t *testing.T) {
	categories := make([]string, len(services.Categories))
	for i, category := range services.Categories {
		categories[i] = string(category)
	}
	categories = append(categories, string(services.CategoryHost))
	for name, values := range map[string][]string{
		"Precision":            {services.Exact.String(), services.AtLeast.String(), services.Stale.String(), services.Unknown.String()},
		"FeedEnd":              {string(services.EndOfFeed), string(services.EndOfRetention)},
		"PostKind":             {string(services.PostKindPost), string(services.PostKindComment), string(services.PostKindReply)},
		"NotificationCategory": categories,
	} {
		enum := schema().Types[name]
		for _, value := range values {
			if enum.EnumValues.ForName(value) == nil {
				t.Errorf("%s lacks %s", name, value)
			}
		}
		if len(enum.EnumValues) != len(values) {
			t.Errorf("%s has %d values, the words have %d", name, len(enum.EnumValues), len(values))
		}
	}
}

func printTime(t time.Time) string {
	var out bytes.Buffer
	MarshalTime(t).MarshalGQL(&out)
	return out.String()
}

func TestTimesArePrintedInUTCWithMilliseconds(t *testing.T) {
	moment := time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC)
	for want, at := range map[string]time.Time{
		`"2026-01-31T09:30:00.000Z"`: moment,
		`"2026-01-31T09:30:00.001Z"`: moment.Add(time.Millisecond + 999*time.Microsecond),
		`"2026-01-31T08:30:00.000Z"`: time.Date(2026, 1, 31, 9, 30, 0, 0, time.FixedZone("", 3600)),
		`"0001-01-01T00:00:00.999Z"`: time.Time{}.Add(999 * time.Millisecond),
		`null`:                       {},
	} {
		if got := printTime(at); got != want {
			t.Errorf("%s is printed %s, want %s", at, got, want)
		}
	}
}

// A moment in any zone is printed in the layout timeLayout, in UTC.
func TestTimesArePrintedInTheLayout(t *testing.T) {
	zones := []*time.Location{time.UTC, time.FixedZone("east", 5*3600+1800), time.FixedZone("west", -11*3600)}
	for range 10_000 {
		at := time.UnixMicro(rand.Int64N(1<<57) - 1<<55).In(zones[rand.IntN(len(zones))])
		if got, want := printTime(at), at.UTC().Format(timeLayout); got != want {
			t.Fatalf("%v is printed as %s, want %s", at, got, want)
		}
	}
}

func BenchmarkAppendTime(b *testing.B) {
	at := time.UnixMilli(1_770_000_123_456)
	var buffer [len(timeLayout)]byte
	for b.Loop() {
		AppendTime(buffer[:0], at)
	}
}

// BenchmarkAppendTimeByLayout formats the same time by the standard library alone, to compare with BenchmarkAppendTime.
func BenchmarkAppendTimeByLayout(b *testing.B) {
	at := time.UnixMilli(1_770_000_123_456)
	var buffer [len(timeLayout)]byte
	for b.Loop() {
		at.UTC().AppendFormat(buffer[:0], timeLayout)
	}
}

// A printed time is JSON, and parses as the same millisecond.
func TestTimesAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		moment := time.UnixMilli(rapid.Int64Range(0, 253402300799999).Draw(t, "ms")).Add(time.Duration(rapid.IntRange(0, 999_999).Draw(t, "ns")))
		var text string
		if err := json.Unmarshal([]byte(printTime(moment)), &text); err != nil {
			t.Fatal(err)
		}
		back, err := UnmarshalTime(text)
		if err != nil || !back.Equal(moment.Truncate(time.Millisecond)) {
			t.Fatalf("%s became %s, %v", moment, back, err)
		}
	})
}

func TestInvalidTimesAreRefused(t *testing.T) {
	for _, input := range []any{nil, 5, int64(5), json.Number("5"), math.Pi, true, []any{}, "", "now", "2026-01-31", "2026-01-31 09:30:00Z", "2026-13-31T09:30:00Z", "2026-01-31T09:30:00", "0001-01-01T00:00:00Z", "0001-01-01T01:00:00+01:00", strings.Repeat("9", 10_000)} {
		got, err := UnmarshalTime(input)
		if services.CodeOf(err) != services.Invalid || !got.IsZero() || len(err.Error()) > 300 {
			t.Errorf("%v is read as %s, %v", input, got, err)
		}
	}
	for _, input := range []string{"2026-01-31T09:30:00Z", "2026-01-31T10:30:00+01:00", "2026-01-31T09:30:00.000000000Z"} {
		if got, err := UnmarshalTime(input); err != nil || !got.Equal(time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC)) {
			t.Errorf("%s is read as %s, %v", input, got, err)
		}
	}
}

// An Int accepts integers of 32 bits, as literals in documents and in variables, and nothing else.
func TestIntAcceptsOnly32BitIntegers(t *testing.T) {
	for _, c := range []struct {
		input any
		want  int
		good  bool
	}{
		{int64(5), 5, true}, {int64(math.MaxInt32), math.MaxInt32, true}, {int64(math.MinInt32), math.MinInt32, true}, {7, 7, true},
		{json.Number("-12"), -12, true}, {json.Number("0"), 0, true},
		{int64(math.MaxInt32 + 1), 0, false}, {int64(math.MinInt32 - 1), 0, false}, {math.MaxInt64, 0, false},
		{json.Number("1.5"), 0, false}, {json.Number("1e1"), 0, false}, {json.Number("2147483648"), 0, false}, {json.Number(""), 0, false},
		{"5", 0, false}, {5.0, 0, false}, {true, 0, false}, {nil, 0, false}, {[]any{}, 0, false},
	} {
		got, err := UnmarshalInt(c.input)
		if got != c.want || (err == nil) != c.good || err != nil && services.CodeOf(err) != services.Invalid {
			t.Errorf("%T %v: %d, %v", c.input, c.input, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "interface") || strings.Contains(err.Error(), "float64")) {
			t.Errorf("%T: %v speaks of types of Go", c.input, err)
		}
	}
	for n, want := range map[int]string{0: "0", -1: "-1", math.MaxInt: "9223372036854775807", math.MinInt: "-9223372036854775808"} {
		var text bytes.Buffer
		MarshalInt(n).MarshalGQL(&text)
		if text.String() != want {
			t.Errorf("%d is printed as %s", n, text.String())
		}
	}
}

// Every connection has edges, nodes and a pageInfo, as clients for connections expect.
func TestConnectionsHaveEdgesNodesAndPageInfo(t *testing.T) {
	schema := NewExecutableSchema(Config{}).Schema()
	connections := 0
	for _, definition := range schema.Types {
		name, isConnection := strings.CutSuffix(definition.Name, "Connection")
		if !isConnection {
			continue
		}
		connections++
		edge := schema.Types[name+"Edge"]
		if edge == nil {
			t.Errorf("there is no %sEdge", name)
			continue
		}
		for field, want := range map[string]string{
			"edges": "[" + edge.Name + "!]!", "nodes": "[" + edge.Fields.ForName("node").Type.String() + "]!", "pageInfo": "PageInfo!",
		} {
			if got := definition.Fields.ForName(field); got == nil || got.Type.String() != want {
				t.Errorf("%s.%s is %v, want %s", definition.Name, field, got, want)
			}
		}
	}
	if connections == 0 {
		t.Error("there are no connections")
	}
}
