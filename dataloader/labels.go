package dataloader

import (
	"context"
	"maps"
	"slices"
	"sync"

	"tidings/services"
)

// labels are the labels that the response has read, and the objects that it has met, so that a label of one is read with those
// of all.
type labels struct {
	read Batch[services.Object, services.Label]

	mu sync.Mutex
	// met has the objects by type, of types that no other batch of the memory knows.
	met map[string][]services.Object
}

// MeetObjects records objects that the response shows together, by their IDs. They are of types that can have labels.
func (l *Loader) MeetObjects(ids []string) {
	m := &l.memory().labels
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.met == nil {
		m.met = map[string][]services.Object{}
	}
	for _, id := range ids {
		// IDs of types without labels are skipped.
		if object, err := services.ParseObject("id", id); err == nil {
			m.met[object.Type] = append(m.met[object.Type], object)
		}
	}
}

// Label reads the label of an object, and with it those of the objects of its type that the response has met, and of others.
func (l *Loader) Label(ctx context.Context, object services.Object, others []services.Object, read func(context.Context, []services.Object) (map[services.Object]services.Label, error)) (services.Label, error) {
	m := l.memory()
	together := func() []services.Object { return append(others, m.together(object.Type)...) }
	label, _, err := m.labels.read.LoadOne(ctx, object, together, read)
	return label, err
}

// together are the objects of a type that the response has met. Posts, shows and messages are in their batches anyway.
func (m *memory) together(kind string) (list []services.Object) {
	switch kind {
	case services.PostType:
		return objects(kind, m.posts.keys())
	case services.ShowType:
		// The shows of a response are guarded by the lock of their reminders.
		m.asking.Lock()
		defer m.asking.Unlock()
		return objects(kind, slices.Collect(maps.Keys(m.met)))
	case services.MessageType:
		return objects(kind, m.messages.keys())
	}
	m.labels.mu.Lock()
	defer m.labels.mu.Unlock()
	return m.labels.met[kind]
}

// objects are numbers as objects of a type.
func objects[N ~uint64](kind string, numbers []N) []services.Object {
	list := make([]services.Object, len(numbers))
	for i, number := range numbers {
		list[i] = services.Object{Type: kind, Number: uint64(number)}
	}
	return list
}
