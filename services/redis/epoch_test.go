package redis

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"tidings/services/redis/redistest"
)

func TestTheEpochCoversAllMastersAndIgnoresLateAnswers(t *testing.T) {
	var e epoch
	if e.value() != noEpoch {
		t.Errorf("before any answer: %s", e.value())
	}
	e.recordLineage("a:1", "x", e.nextQuestionNumber())
	if e.value() != noEpoch {
		t.Error("a server that is not known as a master has a say")
	}
	e.recordAllLineages(map[string]string{"a:1": "x", "b:1": "y"}, e.nextQuestionNumber())
	first := e.value()
	e.recordAllLineages(map[string]string{"c:1": "y", "d:1": "x"}, e.nextQuestionNumber())
	if e.value() != first || first == noEpoch || len(first) > 10 {
		t.Errorf("the same lineages elsewhere: %s after %s", e.value(), first)
	}
	early, later := e.nextQuestionNumber(), e.nextQuestionNumber()
	e.recordLineage("c:1", "new", later)
	second := e.value()
	e.recordLineage("c:1", "y", early)
	e.recordLineage("c:1", "", e.nextQuestionNumber())
	e.recordAllLineages(map[string]string{"c:1": "y", "d:1": "x"}, early)
	if e.value() != second || second == first {
		t.Errorf("%s, then %s: the later question's answer does not stay", second, e.value())
	}
	e.recordAllLineages(map[string]string{"c:1": "y", "d:1": "x"}, e.nextQuestionNumber())
	if e.value() != first {
		t.Errorf("%s, want %s again", e.value(), first)
	}
	var lonely epoch
	lonely.recordLineage(soleMasterKey, "x", lonely.nextQuestionNumber())
	if lonely.value() == noEpoch || lonely.value() == first {
		t.Errorf("one master: %s", lonely.value())
	}
}

func TestReadingOfLineages(t *testing.T) {
	log := &redistest.LogRecorder{}
	c := &Client{log: log.Log()}
	info := func(text string, err error) *redis.StringCmd {
		command := redis.NewStringCmd(context.Background())
		command.SetVal(text)
		command.SetErr(err)
		return command
	}
	for name, check := range map[string]struct {
		info *redis.StringCmd
		want string
		fail bool
	}{
		"a master":      {info("# Replication\r\nrole:master\r\nmaster_replid:abc\r\nmaster_replid2:000\r\n", nil), "abc", false},
		"a replica":     {info("role:slave\r\nmaster_replid:abc\r\n", nil), "", false},
		"no such field": {info("role:master\r\n", nil), noLineage, false},
		"no right":      {info("", redisReplyError("NOPERM this user has no permissions to run the 'info' command")), noLineage, false},
		"loading":       {info("", redisReplyError("LOADING Redis is loading the dataset in memory")), "", true},
		"no answer":     {info("", context.DeadlineExceeded), "", true},
	} {
		id, err := c.lineageOf(check.info)
		if id != check.want || (err != nil) != check.fail {
			t.Errorf("%s: %q, %v", name, id, err)
		}
	}
	if got := strings.Count(log.String(), "level=WARN"); got != 1 {
		t.Errorf("%d warnings, want one: %s", got, log)
	}
}
