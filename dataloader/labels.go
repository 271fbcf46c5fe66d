package dataloader

import (
	"context"
	"maps"
	"slices"
	"sync"

	"tidings/services"
)

// labels has the labels that the response has read, and the objects that RecordObjects has recorded. When the label of one object is
// read, the labels of all objects of its type that responseObjects returns are read too.
type labels struct {
	labelByObject batch[services.Object, services.Label]

	mu sync.Mutex // guards objectsByType
	// objectsByType has the recorded objects by type. responseObjects does not use it for posts, shows and messages, because other
	// fields of responseMemory have those.
	objectsByType map[string][]services.Object
}

// RecordObjects records objects that the response shows together, by their IDs, so that the label of one is read with the labels
// of all.
func (l *Loader) RecordObjects(ids []string) {
	m := &l.currentMemory().labels
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objectsByType == nil {
		m.objectsByType = map[string][]services.Object{}
	}
	for _, id := range ids {
		// IDs of types without labels are skipped.
		if object, err := services.ParseObject("id", id); err == nil {
			m.objectsByType[object.Type] = append(m.objectsByType[object.Type], object)
		}
	}
}

// Label reads the label of an object. The same read covers others, and the objects of the same type that the response has read or
// recorded.
func (l *Loader) Label(ctx context.Context, object services.Object, others []services.Object, read func(context.Context, []services.Object) (map[services.Object]services.Label, error)) (services.Label, error) {
	m := l.currentMemory()
	together := func() []services.Object { return append(others, m.responseObjects(object.Type)...) }
	label, _, err := m.labels.labelByObject.loadOne(ctx, object, together, read)
	return label, err
}

// responseObjects returns the objects of a type that the response has read or recorded. Posts, shows and messages are found among those
// that it has read, the others among the recorded objects.
func (m *responseMemory) responseObjects(kind string) (list []services.Object) {
	switch kind {
	case services.PostType:
		return objects(kind, m.posts.keys())
	case services.ShowType:
		// remindersMu also guards responseShows.
		m.remindersMu.Lock()
		defer m.remindersMu.Unlock()
		return objects(kind, slices.Collect(maps.Keys(m.responseShows)))
	case services.MessageType:
		return objects(kind, m.messages.keys())
	}
	m.labels.mu.Lock()
	defer m.labels.mu.Unlock()
	return m.labels.objectsByType[kind]
}

// objects returns numbers as objects of a type.
func objects[N ~uint64](kind string, numbers []N) []services.Object {
	return services.Map(numbers, func(number N) services.Object { return services.Object{Type: kind, Number: uint64(number)} })
}
