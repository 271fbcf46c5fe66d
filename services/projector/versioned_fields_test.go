package projector_test

import (
	"context"
	"testing"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/redis"
)

func TestRegisteringANameTwicePanics(t *testing.T) {
	w := newEmbeddedWorld(t)
	for want, register := range map[string]func(){
		`projector: the reader "live board" is registered twice`: func() {
			none := func(context.Context, services.UserID) ([]rdb.VersionedField, error) { return nil, nil }
			w.Projector.AddVersionedFields("live board", none, none)
		},
		`projector: the expiring rows "drafts" are registered twice`: func() {
			w.Projector.RegisterExpiringRows("drafts", func(context.Context) (int, error) { return 0, nil })
		},
		`projector: the audit of "drafts" is registered twice`: func() {
			w.Projector.RegisterAuditPart("drafts", func(context.Context, services.UserID, rdb.UserSnapshot) (any, []string, error) { return nil, nil, nil })
		},
		`projector: the rebuild of "drafts" is registered twice`: func() {
			w.Projector.RegisterRebuildPart("drafts", func(context.Context, services.UserID) ([]redis.SequenceStep, error) { return nil, nil })
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
