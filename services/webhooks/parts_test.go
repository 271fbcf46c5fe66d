package webhooks

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
)

// The alert of a part waits for its endpoint however many newer items other parts of the source get meanwhile. It does not come once
// the part shows nothing any more.
func TestNewerItemsOfOtherPartsHideNoAlert(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		ann := b.MakeUsers("ann")
		s := w.newNode()
		w.addEndpoint(s, Filter{Sources: []string{"NOTIFICATIONS:COMMENT"}})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		w.receiver.answerWith(http.StatusInternalServerError)
		at := time.Now()
		w.changeComments(1, at, ann[0])
		w.deliverAll(d)
		w.changeLikes(1, ann...)
		w.deliverAll(d)
		w.receiver.takeDeliveries()
		w.receiver.answerWith(http.StatusOK)
		b.Clock.Advance(time.Hour)
		w.deliverAll(d)
		if got := w.receiver.takeDeliveries(); len(got) != 1 || got[0].Data.Silent || got[0].Data.Cause.ItemID != "notification:2" || *got[0].Data.Cause.Part != "COMMENT" {
			t.Fatalf("after a failure and a like: %+v", got)
		}
		w.setLikesAndMark(2, ann...)
		w.mu.Lock()
		at = w.newestLike[ann[0]].At
		w.mu.Unlock()
		w.changeComments(2, at, ann[0]) // at the time of the like, in one change with it
		w.deliverAll(d)
		if got := w.receiver.takeDeliveries(); len(got) != 1 || got[0].Data.Silent || *got[0].Data.Cause.Part != "COMMENT" {
			t.Errorf("with a like of the same time: %+v", got)
		}
		w.mu.Lock()
		w.newestComment[ann[0]] = services.Item{ID: "notification:3", At: time.Now()}
		w.mu.Unlock()
		w.changeLikes(3, ann...) // the number of comments is the same: a newer one does not alert
		w.changeComments(1, at, ann[0])
		w.deliverAll(d)
		if got := w.receiver.takeDeliveries(); len(got) != 1 || !got[0].Data.Silent {
			t.Errorf("after a fall: %+v", got)
		}
		w.receiver.answerWith(http.StatusInternalServerError)
		w.changeComments(3, time.Now(), ann[0])
		w.deliverAll(d)
		w.changeLikes(4, ann...)
		w.mu.Lock()
		delete(w.newestComment, ann[0])
		w.comments[ann[0]] = 0
		w.mu.Unlock()
		sqltest.Equal(t, w.stream.Mark(b.Ctx, ann), nil)
		w.writeStream()
		w.receiver.takeDeliveries()
		w.receiver.answerWith(http.StatusOK)
		b.Clock.Advance(time.Hour)
		w.deliverAll(d)
		if got := w.receiver.takeDeliveries(); len(got) != 1 || !got[0].Data.Silent || got[0].Data.Cause != nil {
			t.Errorf("after the comments were read: %+v", got)
		}
	})
}

// An alert reaches every endpoint of its part, also where the numbers are the same because another item was read meanwhile.
func TestAnAlertArrivesThoughTheCountIsUnchanged(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		ann := b.MakeUsers("ann")
		s := w.newNode()
		filters := map[string]Filter{
			"all": {}, "totals": {OnlyTotals: true}, "likes": {Sources: []string{"NOTIFICATIONS:LIKE"}}, "comments": {Sources: []string{"NOTIFICATIONS:COMMENT"}},
		}
		deliverers := map[string]*deliverer{}
		for name, filter := range filters {
			sqltest.Must(s.Add(b.Ctx, NewEndpoint{Name: name, URL: w.receiver.server.URL, Filter: filter}))(t)
			deliverers[name] = delivererOf(s, name)
		}
		w.changeComments(1, time.Now(), ann[0])
		for i, newest := range []services.NotificationID{1, 2} {
			w.mu.Lock()
			w.newestNotification = newest
			w.mu.Unlock()
			w.changeLikes(1, ann...)
			for name, d := range deliverers {
				w.deliverAll(d)
				got, want := w.receiver.takeDeliveries(), 1
				if name == "comments" && i > 0 {
					want = 0
				}
				if len(got) != want || want > 0 && (got[0].Data.Silent || got[0].Data.Total != 2) {
					t.Errorf("%s, like %d: %+v", name, i, got)
				}
			}
		}
	})
}

// With a filter of totals and of sources, an event needs a change of the total and a change of one of the sources. Its body has the
// total alone, and its cause is in one of the sources.
func TestTotalsOfSources(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		ann := b.MakeUsers("ann")
		s := w.newNode()
		w.addEndpoint(s, Filter{OnlyTotals: true, Sources: []string{"NOTIFICATIONS:COMMENT"}})
		d := delivererOf(s, "app")
		w.deliverAll(d)
		w.changeLikes(1, ann...)
		w.deliverAll(d)
		sqltest.Equal(t, len(w.receiver.takeDeliveries()), 0) // the total changed, by another source
		w.changeComments(1, time.Now(), ann[0])
		w.deliverAll(d)
		got := w.receiver.takeDeliveries()
		if len(got) != 1 || got[0].Data.Total != 2 || len(got[0].Data.Sources) != 0 || got[0].Data.Silent || *got[0].Data.Cause.Part != "COMMENT" {
			t.Fatalf("%+v", got)
		}
		w.changeLikes(2, ann...)
		w.deliverAll(d)
		sqltest.Equal(t, len(w.receiver.takeDeliveries()), 0)
	})
}

// A panic in a request is an error of that request, and the log names its webhook. The service here has no clock, so that the request
// panics.
func TestAPanicFailsItsRequest(t *testing.T) {
	var log strings.Builder
	d := &deliverer{s: &Service{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}}
	if got := d.post(t.Context(), endpoint{Name: "app"}, &roundItem{}, nil); got.err == "" || !strings.Contains(log.String(), "webhook=app") {
		t.Errorf("the answer is %+v, and the log is %s", got, &log)
	}
}
