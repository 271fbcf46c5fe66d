package resolvers

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
)

// idempotencyKeyField is the Go name of the field of an input that has the idempotency key. It is not a part of the content: inputs
// are compared without it.
const idempotencyKeyField = "IdempotencyKey"

// ingestAction is one field of graph.IngestAction: the operation with the field's name, which takes the input of the mutation. So an
// event has the effect of the mutation, by the same code. The positions of some fields of the input are kept here, so that no event
// has to look for them.
type ingestAction struct {
	*operationSpec
	operation          operationEntry // makes the command from an input
	keyFieldPosition   int            // the position of the input's idempotency key
	userFieldPositions []int          // the positions of the input's fields whose users are made or found for the whole batch
}

// ingestActions are the actions by the positions of the fields of graph.IngestAction. They are found by reflection when the program
// starts. So a new action needs a line in the schema, and none here.
var ingestActions = func() []ingestAction {
	fields := reflect.TypeFor[graph.IngestAction]()
	actions := make([]ingestAction, fields.NumField())
	for i := range actions {
		var err error
		if actions[i], err = newIngestAction(fields.Field(i)); err != nil {
			// The schema and the operations do not match: the program must not start.
			panic(err)
		}
	}
	return actions
}()

// newIngestAction finds the operation of an action. It is an error if there is none, or if its input has another type. The fields that
// name users are found by their names, which are listed here. If a name is missing here, each event reads the users of that field by
// itself.
func newIngestAction(field reflect.StructField) (a ingestAction, err error) {
	// The name in the schema is the name of the mutation.
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if a.operation = operations[name]; a.operation == nil {
		return a, fmt.Errorf("resolvers: there is no operation %s for ingest", name)
	}
	a.operationSpec = a.operation.describe()
	if field.Type != reflect.PointerTo(a.inputType) {
		return a, fmt.Errorf("resolvers: %s takes a %s, ingest offers a %s", a.name, a.inputType, field.Type)
	}
	for i := range a.inputType.NumField() {
		switch a.inputType.Field(i).Name {
		case idempotencyKeyField:
			a.keyFieldPosition = i
		case "UserID", "UserIds", "MemberIds", "MentionIds", "Mentions", "To", "ActorID":
			if _, readable := idsIn(reflect.Zero(a.inputType.Field(i).Type).Interface()); !readable {
				return a, fmt.Errorf("resolvers: %s has users in a field of the type %s, which idsIn does not read", a.name, a.inputType.Field(i).Type)
			}
			a.userFieldPositions = append(a.userFieldPositions, i)
		}
	}
	return a, nil
}

// ingestCommand makes the command of an event. It is the command that the mutation makes for its viewer. The actor and the time come
// from the event. An error fails this event only. ctx has the application's scope, so that refs and labels are allowed.
func ingestCommand(ctx context.Context, c *operationCall, event *graph.IngestEvent) (*jobs.Command, error) {
	set := givenActionPositions(&event.Do)
	// The executor does not check @oneOf for variables. Without this check, the second of two actions would be dropped, and nobody
	// would know.
	if len(set) != 1 {
		return nil, services.Errorf(services.Invalid, "do: an event needs exactly one action, got %d", len(set))
	}
	// input points into the event, which is this request's own: to remove the key from it changes nothing for anybody else.
	action, input := &ingestActions[set[0]], reflect.ValueOf(&event.Do).Elem().Field(set[0])
	if err := c.setActor(ctx, action, event); err != nil {
		return nil, err
	}
	if err := c.setHappenedAt(event.At); err != nil {
		return nil, err
	}
	// The idempotency key may be in the event, or in the input of the mutation, because a host application may already make such an
	// input for the mutation.
	key, err := event.Key, error(nil)
	field := input.Elem().Field(action.keyFieldPosition)
	if own := field.Interface().(*string); own != nil {
		if key != nil && *key != *own {
			return nil, services.Errorf(services.Invalid, "key: the event and its %s have different idempotency keys", action.name)
		}
		key = own
		field.SetZero()
	}
	// From here on the event is a mutation like any other.
	cmd, err := c.makeCommand(ctx, action.operation, input.Interface(), key)
	return cmd, err
}

// The bounds of the time of an event. Past times are for events that were delayed, by an outage of the host application or of its
// queue. 30 days is far longer than such an outage.
const (
	// maxEventAge is how long ago an event may have happened.
	maxEventAge   = 30 * 24 * time.Hour
	maxEventAhead = time.Minute // how far the host application's clock may be ahead
)

// setHappenedAt sets when an event happened. A time in the future, within the skew of the clocks, counts as now: nothing may be
// newer than now. The IDs that an event with a past time makes are of that time, so that earlier events sort before later ones.
func (c *operationCall) setHappenedAt(at *time.Time) error {
	if at == nil {
		return nil
	}
	// now is the time by the database's clock, because events arrive at several nodes, whose clocks may differ.
	now := c.r.Projector.IDClock().Now()
	switch day := 24 * time.Hour; {
	case at.After(now.Add(maxEventAhead)):
		return services.Errorf(services.Invalid, "at: %s is in the future; it may be at most %d seconds after now, %s", momentText(*at), maxEventAhead/time.Second, momentText(now))
	case at.Before(now.Add(-maxEventAge)):
		return services.Errorf(services.Invalid, "at: %s is too long ago; it may be at most %d days before now, %s", momentText(*at), maxEventAge/day, momentText(now))
	}
	c.happenedAt = new(at.Truncate(time.Millisecond)) // as it is stored: times that differ only below that are one input
	if at.Before(now) {
		c.happenedAtID = c.r.Projector.IDClock().NextAt(*at)
		return nil
	}
	// An event of now is committed a little later, but its IDs are of now. If they were of the commit, they could be greater than the IDs
	// of the next event, which may have happened before the commit.
	c.arrivedAtID = c.r.Projector.IDClock().NextAt(now)
	return nil
}

// momentText prints a time for error messages, in UTC with milliseconds.
func momentText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// setActor sets the actor of an event. The operation decides whether it needs an actor, and an event that does not comply is
// INVALID. An actor who did not exist was created by CreateMissingUsers, for the whole batch at once.
func (c *operationCall) setActor(ctx context.Context, action *ingestAction, event *graph.IngestEvent) (err error) {
	switch {
	// If the field `as` were ignored, the host application would believe that the user had acted.
	case action.actorKind == actorHost && event.As != nil:
		return services.Errorf(services.Invalid, "as: %s is an action of the host application itself: leave it out", action.name)
	case action.actorKind == actorUser && event.As == nil:
		return services.Errorf(services.Invalid, "as: %s needs the ID of the acting user", action.name)
	case action.actorKind == actorUser:
		c.actorID = *event.As
		if c.actor, err = c.r.resolveUserID(ctx, "as", c.actorID); err != nil {
			return err
		}
	}
	if event.Device != nil {
		c.device = *event.Device
		return services.WithArgument("device", services.CheckIdentifier(c.device))
	}
	return nil
}

// givenActionPositions returns the positions of the actions that an event sets. gqlgen makes a pointer for each action; in a valid
// event all but one are nil.
func givenActionPositions(do *graph.IngestAction) (set []int) {
	fields := reflect.ValueOf(do).Elem()
	for i := range fields.NumField() {
		if !fields.Field(i).IsNil() {
			set = append(set, i)
		}
	}
	return set
}

// userKeysInEvents returns the keys of the actors of events, and of the users in the fields that newIngestAction lists, each once.
// It ignores malformed IDs: their events report them. It also leaves lists of more than maxIngestEvents users to their events: a
// few such lists are cheap, and more of them do not fit into a request. All actions of an event are read, although an event with
// two will be refused: it does no harm to create a user that the application names.
func userKeysInEvents(events []graph.IngestEvent) (keys []string) {
	note := func(id string) {
		if key, err := services.ParseUserID("", id); err == nil {
			keys = append(keys, key)
		}
	}
	for i := range events {
		if as := events[i].As; as != nil {
			note(*as)
		}
		for _, set := range givenActionPositions(&events[i].Do) {
			input := reflect.ValueOf(&events[i].Do).Elem().Field(set).Elem()
			for _, field := range ingestActions[set].userFieldPositions {
				ids, _ := idsIn(input.Field(field).Interface())
				if len(ids) > maxIngestEvents {
					continue
				}
				for _, id := range ids {
					note(id)
				}
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// idsIn returns the IDs in the value of a field that newIngestAction lists. It reports whether it can read values of this type.
func idsIn(value any) (ids []string, readable bool) {
	switch value := value.(type) {
	case string:
		return []string{value}, true
	case *string:
		if value == nil {
			return nil, true
		}
		return []string{*value}, true
	case []string:
		return value, true
	case graphql.Omittable[[]string]:
		return value.Value(), true
	}
	return nil, false
}

// nextCommitBounds finds the events that can share a commit: events[from:to]. named has the refs in their IDs by ref, each once. An
// event that names an object by a ref which an earlier event of this commit sets begins the next commit. Malformed refs are left to
// their own events, which report them. At least one event is taken, because made is empty at the first event. Otherwise ingest
// would not end.
func nextCommitBounds(events []graph.IngestEvent, from int) (to int, named []services.Ref) {
	// made has the refs that this commit sets, and known the refs in its IDs by ref.
	made, known := map[services.Ref]bool{}, map[services.Ref]bool{}
	for to = from; to < len(events); to++ {
		var names []services.Ref
		var makes services.Ref
		for _, set := range givenActionPositions(&events[to].Do) {
			action, input := &ingestActions[set], reflect.ValueOf(&events[to].Do).Elem().Field(set).Elem()
			list, _ := action.fields.refsIn(input)
			names = append(names, list...)
			makes.Type = action.createdType
			makes.Text, _ = optionalText(input, action.fields.ref)
		}
		// The object must exist before its ref can be found, so the commit ends here.
		if slices.ContainsFunc(names, func(ref services.Ref) bool { return made[ref] }) {
			break
		}
		for _, ref := range names {
			if !known[ref] {
				known[ref], named = true, append(named, ref)
			}
		}
		if makes.Text != "" {
			made[makes] = true
		}
	}
	return to, named
}
