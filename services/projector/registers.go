package projector

import (
	"context"
	"fmt"

	"tidings/services"
	"tidings/services/rdb"
)

// RegisterReader reads one source's versioned fields of a user from the facts.
type RegisterReader func(ctx context.Context, user services.UserID) ([]rdb.Register, error)

// seenPositions are a user's positions in the views of registered readers, by view code; a view that they never looked at is absent.
type seenPositions = map[string]services.PostID

// namedRegisterReader has the two readers of one source's versioned fields, and the name under which they are registered.
type namedRegisterReader struct {
	name         string
	positionView string // the view whose position read needs, or ""
	// read is for rebuilds.
	read  func(ctx context.Context, user services.UserID, at seenPositions) ([]rdb.Register, error)
	audit RegisterReader // reads the same fields for the audit, without the code of read
}

// AddRegisters adds a source's two readers, before the first rebuild. read is for rebuilds. audit reads the same fields from SQL
// without the code of read, so that the audit finds errors in read. It panics when the name is taken.
func (p *Projector) AddRegisters(name string, read, audit RegisterReader) {
	p.addReader(namedRegisterReader{name, "", func(ctx context.Context, user services.UserID, _ seenPositions) ([]rdb.Register, error) {
		return read(ctx, user)
	}, audit})
}

// AddPositionReader adds the two readers of a source whose only versioned field is a user's position in a view: of makes the field of
// the position, for rebuilds, and audit reads the field for the audit. A rebuild reads the positions in all views at once.
func (p *Projector) AddPositionReader(name, view string, of func(position services.PostID) rdb.Register, audit RegisterReader) {
	p.addReader(namedRegisterReader{name, view, func(_ context.Context, _ services.UserID, at seenPositions) ([]rdb.Register, error) {
		// Without a position the field keeps its initial value, and costs nothing.
		if at[view] == 0 {
			return nil, nil
		}
		return []rdb.Register{of(at[view])}, nil
	}, audit})
}

// addReader registers a source's readers. It panics when the name is taken.
func (p *Projector) addReader(added namedRegisterReader) {
	for _, reader := range p.registerReaders {
		if reader.name == added.name {
			panic(fmt.Sprintf("projector: the reader %q is registered twice", added.name))
		}
	}
	p.registerReaders = append(p.registerReaders, added)
}

// positionViews are the views whose positions the registered readers need.
func (p *Projector) positionViews() (views []string) {
	for _, reader := range p.registerReaders {
		if reader.positionView != "" {
			views = append(views, reader.positionView)
		}
	}
	return views
}

// readRegisters reads all versioned fields of a user. at has the user's positions in the views of positionViews.
func (p *Projector) readRegisters(ctx context.Context, user services.UserID, at seenPositions) (all []rdb.Register, err error) {
	for _, reader := range p.registerReaders {
		registers, err := reader.read(ctx, user, at)
		if err != nil {
			return nil, fmt.Errorf("registers of %s: %w", reader.name, err)
		}
		all = append(all, registers...)
	}
	return all, nil
}

// ProjectRegisters projects one source's versioned fields of a user into their document.
func (p *Projector) ProjectRegisters(ctx context.Context, user services.UserID, read RegisterReader) error {
	registers, err := read(ctx, user)
	if err != nil || len(registers) == 0 {
		return err
	}
	return p.PutRegisters(ctx, []rdb.Registers{{User: user, Fields: registers}})
}

// PutRegisters writes versioned fields into documents, and sends hints where they changed. It needs no stamp: the newer version
// wins.
func (p *Projector) PutRegisters(ctx context.Context, registers []rdb.Registers) error {
	if len(registers) == 0 {
		return nil
	}
	results, err := p.redis.PutRegisters(ctx, registers)
	if err != nil {
		return err
	}
	users := make([]services.UserID, len(registers))
	for i := range registers {
		users[i] = registers[i].User
	}
	return p.HintAndMark(ctx, users, results)
}

// RegistersByUser groups versioned fields by user, in the order in which the users first occur. PutRegisters writes All.
type RegistersByUser struct {
	All     []rdb.Registers         // one entry for each user
	indexes map[services.UserID]int // the index of each user in All
}

// Add adds fields of a user.
func (g *RegistersByUser) Add(user services.UserID, registers ...rdb.Register) {
	place, known := g.indexes[user]
	if !known {
		if g.indexes == nil {
			g.indexes = map[services.UserID]int{}
		}
		place = len(g.All)
		g.indexes[user] = place
		g.All = append(g.All, rdb.Registers{User: user})
	}
	g.All[place].Fields = append(g.All[place].Fields, registers...)
}
