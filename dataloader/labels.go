package dataloader

import (
	"context"
	"maps"
	"slices"
	"sync"

	"tidings/services"
)

// labels has the labels that the response has read, and the objects that it has met. When the label of one object is read, the labels
// of all are.
type labels struct {
	read Batch[services.Object, services.Label]

	mu sync.Mutex
	// met has the objects by type. metObjects does not use it for posts, shows and messages, because other parts of the memory have
	// those.
	met map[string][]services.Object
}

// MeetObjects records objects that the response shows together, by their IDs, so that the label of one is read with the labels
// of all.
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

// Label reads the label of an object. The same read covers others, and the objects of the same type that the response has met.
func (l *Loader) Label(ctx context.Context, object services.Object, others []services.Object, read func(context.Context, []services.Object) (map[services.Object]services.Label, error)) (services.Label, error) {
	m := l.memory()
	together := func() []services.Object { return append(others, m.metObjects(object.Type)...) }
	label, _, err := m.labels.read.LoadOne(ctx, object, together, read)
	return label, err
}

// metObjects returns the objects of a type that the response has met. Posts, shows and messages are found in other parts of the
// memory.
func (m *memory) metObjects(kind string) (list []services.Object) {
	switch kind {
	case services.PostType:
		return objects(kind, m.posts.keys())
	case services.ShowType:
		// The mutex asking also guards the shows in m.met.
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

// objects returns numbers as objects of a type.
func objects[N ~uint64](kind string, numbers []N) []services.Object {
	list := make([]services.Object, len(numbers))
	for i, number := range numbers {
		list[i] = services.Object{Type: kind, Number: uint64(number)}
	}
	return list
}
