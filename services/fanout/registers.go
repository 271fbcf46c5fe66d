package fanout

import (
	"context"
	"fmt"

	"tidings/services"
	"tidings/services/rdb"
)

// RegisterReader reads one source's versioned fields of a user from the facts.
type RegisterReader func(ctx context.Context, user services.UserID) ([]rdb.Register, error)

// namedReader is a registered reader.
type namedReader struct {
	name        string
	read, audit RegisterReader
}

// RegisterRegisters adds a source's two readers, before the first rebuild: read is for rebuilds, audit is the same from SQL
// again, without the code of read, so that the audit finds errors in read. It panics when the name is taken.
func (f *Fanout) RegisterRegisters(name string, read, audit RegisterReader) {
	for _, reader := range f.readers {
		if reader.name == name {
			panic(fmt.Sprintf("fanout: the reader %q is registered twice", name))
		}
	}
	f.readers = append(f.readers, namedReader{name, read, audit})
}

// registers are all versioned fields of a user.
func (f *Fanout) registers(ctx context.Context, user services.UserID) (all []rdb.Register, err error) {
	for _, reader := range f.readers {
		registers, err := reader.read(ctx, user)
		if err != nil {
			return nil, fmt.Errorf("registers of %s: %w", reader.name, err)
		}
		all = append(all, registers...)
	}
	return all, nil
}

// Project projects one source's versioned fields of a user into their document.
func (f *Fanout) Project(ctx context.Context, user services.UserID, read RegisterReader) error {
	registers, err := read(ctx, user)
	if err != nil || len(registers) == 0 {
		return err
	}
	return f.put(ctx, []rdb.Registers{{User: user, Fields: registers}})
}

// put writes versioned fields into documents, and sends hints where they changed.
func (f *Fanout) put(ctx context.Context, registers []rdb.Registers) error {
	if len(registers) == 0 {
		return nil
	}
	results, err := f.redis.PutRegisters(ctx, registers)
	if err != nil {
		return err
	}
	users := make([]services.UserID, len(registers))
	for i := range registers {
		users[i] = registers[i].User
	}
	f.hint(ctx, users, results)
	return nil
}

// gather groups versioned fields by user, in the order in which the users first occur.
type gather struct {
	all    []rdb.Registers
	places map[services.UserID]int
}

func (g *gather) add(user services.UserID, registers ...rdb.Register) {
	place, known := g.places[user]
	if !known {
		if g.places == nil {
			g.places = map[services.UserID]int{}
		}
		place = len(g.all)
		g.places[user] = place
		g.all = append(g.all, rdb.Registers{User: user})
	}
	g.all[place].Fields = append(g.all[place].Fields, registers...)
}
