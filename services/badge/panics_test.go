package badge

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"tidings/services/fanout/fanouttest"
)

// A user whose rebuild panics is counted in SQL, and the log has the stack. The users who are read together with them are rebuilt.
func TestARebuildThatPanicsIsCountedInSQL(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"})
	panicFor := w.RegisterFaultyRebuild()
	n := newNode(w)
	users := n.MakeUsers(3)
	n.Follow(users[0], users[1:]...)
	n.RunAllJobs(n.World.Fanout)
	n.Post(users[0])
	n.RunAllJobs(n.World.Fanout)
	for _, user := range users[1:] {
		n.Must(n.Redis.ResetUserData(t.Context(), user))
	}
	panicFor(users[1])
	var log bytes.Buffer
	s := n.newServiceWith(func(cfg *Config) { cfg.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	badges, errs := s.ReadAndFollow(t.Context(), users[1:])
	for i, one := range badges {
		if errs[i] != nil || one.HomeFeed.Value != 1 {
			t.Errorf("user %d is shown %+v, %v", users[1+i], one, errs[i])
		}
	}
	if text := log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "while it rebuilds") {
		t.Errorf("the log is %s", text)
	}
	documents, err := n.Redis.Documents(t.Context(), users[1:])
	if err != nil || documents[0].Ready || !documents[1].Ready {
		t.Errorf("the documents are ready: %t, %t, %v", documents[0].Ready, documents[1].Ready, err)
	}
}
