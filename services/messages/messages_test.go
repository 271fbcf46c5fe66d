package messages

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql/sqltest"
)

// messageNode is a node that serves site messages on real engines.
type messageNode struct {
	*fanouttest.World
	service *Service
}

// newService makes the service of one of a world's nodes.
func newService(w *fanouttest.World, node *fanouttest.Fanout) *Service {
	return New(Config{DB: w.DB, Jobs: node.Engine, Projector: node.Projector, IDs: w.IDs})
}

func newMessageNode(w *fanouttest.World) messageNode {
	return messageNode{w, newService(w, w.Fanout)}
}

// newUserKeys returns the keys of a number of new users.
func newUserKeys(count int) []string {
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprintf("reader%05d", i)
	}
	return keys
}

// send commits a message; nothing is delivered yet.
func (b messageNode) send(draft Draft) ID {
	b.TB.Helper()
	cmd, err := b.service.Send(draft)
	b.Must(err)
	b.Must(b.Fanout.Commit(b.TB.Context(), cmd)[0])
	id, err := ParseID("id", cmd.IDs()[0])
	b.Must(err)
	return id
}

// An acknowledged command is on disk: although nothing is delivered yet, every recipient gets the message once, whichever
// node runs which job.
func TestSeveralNodesDeliverAMessage(t *testing.T) {
	b := newMessageNode(fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.Postgres(t)}))
	const readers = 3000
	keys := newUserKeys(readers)
	id := b.send(Draft{Text: Text{Title: "to many"}, To: append(keys, keys[:100]...)})
	if report, err := b.service.Report(t.Context(), id); err != nil || report.Recipients != 0 {
		t.Fatalf("before any work: %+v, %v", report, err)
	}
	another := func() *fanouttest.Fanout {
		node := b.AnotherFanout()
		newService(b.World, node)
		return node
	}
	var nodes sync.WaitGroup
	for _, node := range []*fanouttest.Fanout{b.Fanout, another(), another()} {
		for _, worker := range node.Workers(2) {
			nodes.Go(func() {
				for {
					if claimed, err := worker.RunOnce(t.Context()); err != nil || claimed == 0 {
						return
					}
				}
			})
		}
	}
	nodes.Wait()
	b.RunAllJobs(b.Fanout)
	report, err := b.service.Report(t.Context(), id)
	b.Must(err)
	if _, dead := b.CountJobs(); report.Recipients != readers || report.ReadCount != 0 || dead > 0 {
		t.Errorf("%+v, %d dead jobs", report, dead)
	}
	ids, err := people.IDs(t.Context(), b.DB, keys[:1])
	b.Must(err)
	found, err := readUserStates(t.Context(), b.DB, ids[keys[0]])
	b.Must(err)
	if len(found) != 1 || found[0].Unread != 1 {
		t.Errorf("the user who was named twice has %+v", found)
	}
}

// The same key and message is sent once; the same key with another recipient is refused.
func TestAMessageIsSentOnceUnderItsKey(t *testing.T) {
	b := newMessageNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}))
	commit := func(to ...string) (*jobs.Command, error) {
		cmd, err := b.service.Send(Draft{Text: Text{Title: "once"}, To: to})
		b.Must(err)
		cmd.IdempotencyKey, cmd.Input = "key", to
		return cmd, b.Fanout.Commit(t.Context(), cmd)[0]
	}
	first, err := commit("ann", "bob")
	b.Must(err)
	second, err := commit("ann", "bob")
	b.Must(err)
	if first.IDs()[0] != second.IDs()[0] {
		t.Errorf("sent twice: %v, %v", first.IDs(), second.IDs())
	}
	if _, err := commit("ann", "carl"); services.CodeOf(err) != services.Conflict {
		t.Errorf("with another recipient: %v", err)
	}
}

// A message without a type has the default type of the settings.
func TestTheDefaultTypeIsTheFirstOfTheSettings(t *testing.T) {
	if types := services.WithDefaults(Settings{}).Types; !slices.Equal(types, []string{services.DefaultMessageType}) {
		t.Errorf("the settings have the types %v, and a message without a type is of %s", types, services.DefaultMessageType)
	}
}
