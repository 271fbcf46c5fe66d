package projector

import (
	"context"
	"fmt"
	"slices"

	"tidings/services"
	"tidings/services/positions"
	"tidings/services/rdb"
)

// VersionedFieldReader reads one source's versioned fields of a user from the facts.
type VersionedFieldReader func(ctx context.Context, user services.UserID) ([]rdb.VersionedField, error)

// seenPositions are a user's positions, by the code of the view: see positions.OfUser.
type seenPositions = map[string]uint64

// namedVersionedFieldReader has the two readers of one source's versioned fields, and the name under which they are registered.
type namedVersionedFieldReader struct {
	name string
	// read is for rebuilds.
	read  func(ctx context.Context, user services.UserID, at seenPositions) ([]rdb.VersionedField, error)
	audit VersionedFieldReader // reads the same fields for the audit, without the code of read
}

// AddVersionedFields adds a source's two readers, before the first rebuild. read is for rebuilds. audit reads the same fields from SQL
// without the code of read, so that the audit finds errors in read. It panics when the name is taken.
func (p *Projector) AddVersionedFields(name string, read, audit VersionedFieldReader) {
	p.addReader(namedVersionedFieldReader{name, func(ctx context.Context, user services.UserID, _ seenPositions) ([]rdb.VersionedField, error) {
		return read(ctx, user)
	}, audit})
}

// AddPositionReader adds the two readers of a source whose only versioned field is a user's position in a view: of makes the field of
// the position, for rebuilds, and audit reads the field for the audit. A rebuild reads the positions in all views at once. It panics for a
// view that is not in positions.Views.
func (p *Projector) AddPositionReader(name, view string, of func(position uint64) rdb.VersionedField, audit VersionedFieldReader) {
	if !slices.Contains(positions.Views, view) {
		panic(fmt.Sprintf("projector: no rebuild reads the position in the view %q", view))
	}
	p.addReader(namedVersionedFieldReader{name, func(_ context.Context, _ services.UserID, at seenPositions) ([]rdb.VersionedField, error) {
		// Without a position the field keeps its initial value, and costs nothing.
		if at[view] == 0 {
			return nil, nil
		}
		return []rdb.VersionedField{of(at[view])}, nil
	}, audit})
}

// addReader registers a source's readers. It panics when the name is taken.
func (p *Projector) addReader(added namedVersionedFieldReader) {
	for _, reader := range p.versionedFieldReaders {
		if reader.name == added.name {
			panic(fmt.Sprintf("projector: the reader %q is registered twice", added.name))
		}
	}
	p.versionedFieldReaders = append(p.versionedFieldReaders, added)
}

// readVersionedFields reads all versioned fields of a user. at has the user's positions.
func (p *Projector) readVersionedFields(ctx context.Context, user services.UserID, at seenPositions) (all []rdb.VersionedField, err error) {
	for _, reader := range p.versionedFieldReaders {
		fields, err := reader.read(ctx, user, at)
		if err != nil {
			return nil, fmt.Errorf("versioned fields of %s: %w", reader.name, err)
		}
		all = append(all, fields...)
	}
	return all, nil
}

// ProjectVersionedFields projects one source's versioned fields of a user into their document.
func (p *Projector) ProjectVersionedFields(ctx context.Context, user services.UserID, read VersionedFieldReader) error {
	fields, err := read(ctx, user)
	if err != nil || len(fields) == 0 {
		return err
	}
	return p.PutVersionedFields(ctx, []rdb.VersionedFields{{User: user, Fields: fields}})
}

// PutVersionedFields writes versioned fields into documents, and sends hints where they changed. It needs no stamp: the newer version
// wins.
func (p *Projector) PutVersionedFields(ctx context.Context, users []rdb.VersionedFields) error {
	if len(users) == 0 {
		return nil
	}
	results, err := p.redis.PutVersionedFields(ctx, users)
	if err != nil {
		return err
	}
	return p.HintAndMark(ctx, services.Map(users, func(item rdb.VersionedFields) services.UserID { return item.User }), results)
}

// VersionedFieldsByUser groups versioned fields by user, in the order in which the users first occur. PutVersionedFields writes All.
type VersionedFieldsByUser struct {
	All     []rdb.VersionedFields   // one entry for each user
	indexes map[services.UserID]int // the index of each user in All
}

// Add adds fields of a user.
func (g *VersionedFieldsByUser) Add(user services.UserID, fields ...rdb.VersionedField) {
	index, known := g.indexes[user]
	if !known {
		if g.indexes == nil {
			g.indexes = map[services.UserID]int{}
		}
		index = len(g.All)
		g.indexes[user] = index
		g.All = append(g.All, rdb.VersionedFields{User: user})
	}
	g.All[index].Fields = append(g.All[index].Fields, fields...)
}
