package fanout_test

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

// The audit does not read through the readers that it audits: the output of a wrong reader is drift.
func TestAuditFindsAReaderOfRegistersThatIsWrong(t *testing.T) {
	for name, wrong := range map[string]rdb.Register{
		"notifications":          rdb.CategoryRegisters(services.CategoryCounts{Category: services.CategoryLike, Version: 1 << 51, Days: [8]int{9}})[0],
		"site messages":          rdb.MessagesRegister(services.MessageTypeState{Type: services.DefaultMessageType, Version: 1 << 51, Unread: 9}),
		"display policy":         rdb.PolicyRegister(services.DisplayPolicy{Version: 1 << 51, QuietTo: 9}),
		"announcements and dots": rdb.NoticeRegister(services.NoticeState{Version: 1 << 51, Position: 9}),
		"live board":             rdb.LiveSeenRegister(1 << 51),
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, nil)
			litUser(w)
			a := w.Fanout.Audit(auditEvery)
			lapOf(w, a)
			if got := a.Stats(); got.Drifted != 0 {
				t.Fatalf("with right readers: %+v", got)
			}
			w.Fanout.AddRegister(name, wrong)
			everyone, err := w.Store.ActiveUsers(t.Context(), 0, 10_000, time.Time{})
			w.Must(err)
			for _, user := range everyone {
				w.Must(w.Fanout.Rebuild(t.Context(), user))
			}
			lapOf(w, a)
			if got := a.Stats(); got.Drifted == 0 {
				t.Errorf("the audit agrees with %+v: %+v", wrong, got)
			}
		})
	}
}

func TestNamesAreRegisteredOnce(t *testing.T) {
	w := world(t, nil)
	for want, register := range map[string]func(){
		`fanout: the reader "live board" is registered twice`: func() {
			none := func(context.Context, services.UserID) ([]rdb.Register, error) { return nil, nil }
			w.Fanout.RegisterRegisters("live board", none, none)
		},
		`fanout: the limited rows "drafts" are registered twice`: func() {
			w.Fanout.RegisterLimitedRows("drafts", func(context.Context) (int, error) { return 0, nil })
		},
		`fanout: the audit of "drafts" is registered twice`: func() {
			w.Fanout.RegisterAuditPart("drafts", func(context.Context, services.UserID, rdb.Snapshot) (any, []string, error) { return nil, nil, nil })
		},
		`fanout: the rebuild of "drafts" is registered twice`: func() {
			w.Fanout.RegisterRebuildPart("drafts", func(context.Context, services.UserID) (bool, error) { return true, nil })
		},
	} {
		t.Run(want, func(t *testing.T) {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic: %v", got)
				}
			}()
			register()
			register()
		})
	}
}
