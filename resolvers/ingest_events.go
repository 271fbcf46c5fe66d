package resolvers

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
)

// The fields of events and inputs that say something about the request, and not what is asked for.
const (
	eventActor     = "As"     // who does it, in the event of an operation for users
	eventKey       = "Key"    // the idempotency key, in every event
	eventDevice    = "Device" // the device of an operation that is ofDevice
	idempotencyKey = "IdempotencyKey"
)

// ingestEvent is how one field of IngestEvent becomes the input of the mutation that has its name. Positions are those of fields
// in the event; -1 is none.
type ingestEvent struct {
	operation       entry
	input           reflect.Type
	as, key, device int
	copied          []fieldCopy
	users           []int // fields that name users, who exist once they are named
}

// fieldCopy takes a field of an event into the input.
type fieldCopy struct{ from, to int }

// ingestEvents are the events by the positions of the fields of graph.IngestEvent.
var ingestEvents = func() []ingestEvent {
	fields := reflect.TypeFor[graph.IngestEvent]()
	events := make([]ingestEvent, fields.NumField())
	for i := range events {
		var err error
		if events[i], err = newIngestEvent(fields.Field(i)); err != nil {
			panic(err)
		}
	}
	return events
}()

// newIngestEvent finds the operation of an event and the places of its fields. It is an error when the input cannot say
// what the event says: a field of the event is missing in it, or of another type there.
func newIngestEvent(field reflect.StructField) (e ingestEvent, err error) {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if e.operation = operations[name]; e.operation == nil {
		return e, fmt.Errorf("resolvers: no operation has the name of the event %s", name)
	}
	_, by, ofDevice, input := e.operation.describe()
	event := field.Type.Elem()
	e.input, e.as, e.key, e.device = input, -1, -1, -1
	for i := range event.NumField() {
		from := event.Field(i)
		if slices.Contains([]string{eventActor, "UserID", "UserIds", "MemberIds", "MentionIds"}, from.Name) {
			e.users = append(e.users, i)
		}
		switch to, shared := input.FieldByName(from.Name); {
		case from.Name == eventActor:
			e.as = i
		case from.Name == eventKey:
			e.key = i
		case from.Name == eventDevice && ofDevice:
			e.device = i
		case !shared || to.Type != from.Type:
			return e, fmt.Errorf("resolvers: the input of %s has no %s %s, which its event has", name, from.Name, from.Type)
		default:
			e.copied = append(e.copied, fieldCopy{i, to.Index[0]})
		}
	}
	if (e.as >= 0) != (by == forUser) || e.key < 0 || (e.device >= 0) != ofDevice {
		return e, fmt.Errorf("resolvers: the event %s does not say who does it, from where, and with which key, as its operation asks", name)
	}
	return e, nil
}

// ingestCommand makes the command of an event.
func ingestCommand(ctx context.Context, c *call, event *graph.IngestEvent) (*jobs.Command, error) {
	set := fieldsSet(event)
	// The executor does not hold @oneOf against variables: without this, one of two events would be lost unsaid.
	if len(set) != 1 {
		return nil, services.Errorf(services.Invalid, "events: an event names exactly one thing that happened, got %d", len(set))
	}
	e, from := &ingestEvents[set[0]], reflect.ValueOf(event).Elem().Field(set[0]).Elem()
	if e.as >= 0 {
		c.as = from.Field(e.as).String()
		var err error
		if c.actor, err = c.r.number(ctx, "as", c.as); err != nil {
			return nil, err
		}
	}
	if e.device >= 0 {
		if device := from.Field(e.device).Interface().(*string); device != nil {
			c.device = *device
			if err := services.CheckUserKey(c.device); err != nil {
				return nil, err
			}
		}
	}
	input := reflect.New(e.input)
	for _, field := range e.copied {
		input.Elem().Field(field.to).Set(from.Field(field.from))
	}
	return e.operation.prepare(ctx, c, input.Interface(), from.Field(e.key).Interface().(*string))
}

// fieldsSet are the positions of the fields that an event has.
func fieldsSet(event *graph.IngestEvent) (set []int) {
	fields := reflect.ValueOf(event).Elem()
	for i := range fields.NumField() {
		if !fields.Field(i).IsNil() {
			set = append(set, i)
		}
	}
	return set
}

// usersNamed are the keys of the users whom events name by their ids.
func usersNamed(events []graph.IngestEvent) (keys []string) {
	note := func(id string) {
		if key, err := services.ParseUserID("", id); err == nil {
			keys = append(keys, key)
		}
	}
	for i := range events {
		for _, set := range fieldsSet(&events[i]) {
			event := reflect.ValueOf(&events[i]).Elem().Field(set).Elem()
			for _, field := range ingestEvents[set].users {
				switch ids := event.Field(field); {
				case ids.Kind() == reflect.String:
					note(ids.String())
				case ids.Len() <= maxEvents:
					for k := range ids.Len() {
						note(ids.Index(k).String())
					}
				}
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
