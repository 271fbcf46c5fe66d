package imports

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/importer"
	"tidings/services/messages"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// messageTypes are the types of messages in the tests.
var messageTypes = []string{"general", "offer"}

// importMessages imports a file of messages.
func (im *testImporter) importMessages(opts importer.Options) (importer.Report, error) {
	im.now = im.now.Add(time.Minute) // IDs contain the time
	opts.Clock, opts.Out, opts.Quiet = im, &im.out, true
	return messages.ImportFile(im.t.Context(), im.db, services.NewIDClock(im, 1), messageTypes, opts)
}

// mustImportMessages imports a file of messages, and fails the test on an error.
func (im *testImporter) mustImportMessages(opts importer.Options) importer.Report {
	im.t.Helper()
	report, err := im.importMessages(opts)
	if err != nil {
		im.t.Fatal(err)
	}
	report.Took = 0
	return report
}

// messagesFile is a file of two messages, "spring" in two lines.
const messagesFile = `{"key":"spring","type":"offer","title":"Spring","content":"It is here.","to":["ann","bob","ann"]}
{"key":"spring","to":["carl","ann"]}

{"key":"rules","title":"Rules","to":["bob"]}
`

// messagesByRecipient returns the recipients' messages after all jobs: user -> titles.
func messagesByRecipient(t *testing.T, w *fanouttest.World, service *messages.Service, keys ...string) map[string]string {
	t.Helper()
	w.RunAllJobs(w.Fanout)
	ids, err := people.IDs(t.Context(), w.DB, keys)
	w.Must(err)
	has := map[string]string{}
	for _, key := range keys {
		page, err := service.Page(t.Context(), ids[key], nil, true, messages.MaxID, 100)
		w.Must(err)
		for _, message := range page.Messages {
			has[key] += fmt.Sprintf("%s/%s/%s ", message.Type, message.Title, message.Content)
		}
	}
	return has
}

// The messages of a file are sent to everyone once, even if it is imported repeatedly, completely or partly, on both
// engines.
func TestImportedMessagesAreDeliveredOnce(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		w := fanouttest.New(t, fanouttest.Options{SQLURL: url, RedisURL: "embedded"})
		im := newImporter(t, w.DB)
		service := messages.New(messages.Config{DB: w.DB, Jobs: w.Fanout.Engine, Projector: w.Projector, IDs: w.IDs, Settings: messages.Settings{Types: messageTypes}})
		file := im.writeFile("spring.jsonl", messagesFile)
		want := importer.Report{Kind: "messages", CountsRecipients: true, LastLine: 4, GoodRows: 3, NewItems: 2, Recipients: 6}
		if diff := cmp.Diff(want, im.mustImportMessages(importer.Options{File: file, BatchSize: 1})); diff != "" {
			t.Errorf("the report (-want +got):\n%s", diff)
		}
		text := "offer/Spring/It is here. "
		has := map[string]string{"ann": text, "bob": "general/Rules/ " + text, "carl": text}
		if diff := cmp.Diff(has, messagesByRecipient(t, w, service, "ann", "bob", "carl", "dora")); diff != "" {
			t.Errorf("they have (-want +got):\n%s", diff)
		}
		want.NewItems = 0
		if diff := cmp.Diff(want, im.mustImportMessages(importer.Options{File: file})); diff != "" {
			t.Errorf("the report of the second time (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(has, messagesByRecipient(t, w, service, "ann", "bob", "carl")); diff != "" {
			t.Errorf("after the second time they have (-want +got):\n%s", diff)
		}
		more := im.mustImportMessages(importer.Options{File: "-", Input: strings.NewReader(`{"key":"spring","to":["dora"]}`), KeyPrefix: ""})
		if more.NewItems != 0 || more.GoodRows != 1 {
			t.Errorf("another file of the same key: %+v", more)
		}
		if got := messagesByRecipient(t, w, service, "dora")["dora"]; got != text {
			t.Errorf("dora has %q", got)
		}
	})
}

// failingDB is a database that accepts as many further transactions as writesLeft says, and fails all later ones.
type failingDB struct {
	importer.DB
	writesLeft int
}

// Write fails once no writes are left.
func (b *failingDB) Write(ctx context.Context, fn func(tx *sql.Tx) error) error {
	if b.writesLeft--; b.writesLeft < 0 {
		return services.Errorf(services.Unavailable, "the database went away")
	}
	return b.DB.Write(ctx, fn)
}

func TestAnInterruptedImportOfMessagesResumes(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"})
	im := newImporter(t, w.DB)
	service := messages.New(messages.Config{DB: w.DB, Jobs: w.Fanout.Engine, Projector: w.Projector, IDs: w.IDs, Settings: messages.Settings{Types: messageTypes}})
	file := im.writeFile("spring.jsonl", messagesFile)
	_, err := messages.ImportFile(t.Context(), &failingDB{w.DB, 1}, services.NewIDClock(im, 1), messageTypes, importer.Options{File: file, BatchSize: 1, Out: &im.out})
	if services.CodeOf(err) != services.Unavailable {
		t.Fatalf("broken off: %v", err)
	}
	got := im.mustImportMessages(importer.Options{File: file})
	if diff := cmp.Diff(importer.Report{Kind: "messages", CountsRecipients: true, ResumedAfter: 1, LastLine: 4, GoodRows: 2, NewItems: 1, Recipients: 3}, got); diff != "" {
		t.Errorf("the report of the rest (-want +got):\n%s", diff)
	}
	if text := got.String(); text != "after line 1: 2 rows: 1 messages are new, to 3 recipients; 0.0 s" {
		t.Errorf("it reads %q", text)
	}
	text := "offer/Spring/It is here. "
	if diff := cmp.Diff(map[string]string{"ann": text, "bob": "general/Rules/ " + text, "carl": text}, messagesByRecipient(t, w, service, "ann", "bob", "carl")); diff != "" {
		t.Errorf("they have (-want +got):\n%s", diff)
	}
}

// Bad lines are reported, written to the file of bad lines and sent to no one; the others are imported.
func TestBadLinesOfMessages(t *testing.T) {
	im := sqliteImporter(t)
	bad := []struct{ line, says string }{
		{`not JSON`, "not one JSON object"},
		{`{"key":"a","to":["x"],"extra":1}`, "extra"},
		{`{"key":"a","title":"t","to":["x"]} {}`, "not one JSON object with key, type, title, content and to: there is more text after it"},
		{`[]`, "not one JSON object with key, type, title, content and to: it is a list"},
		{`null`, "not one JSON object with key, type, title, content and to: it is null"},
		{`{"key":"a","title":"t","to":"x"}`, "to: a list of texts is needed, got a text"},
		{`{"key":"a","title":"t","to":["x",7]}`, "to: a text is needed, got a number"},
		{`{"title":"t","to":["x"]}`, "key: a ref has 1 to 128 characters, got 0"},
		{`{"key":"a","title":"t","to":[]}`, "to: 1 to 10000 recipients"},
		{`{"key":"a","title":"t","to":["a\tb"]}`, "to: user key"},
		{`{"key":"a","to":["x"]}`, "title: 1 to 255 characters are allowed, got 0"},
		{`{"key":"a","title":" \t\u3000","to":["x"]}`, "title: 1 to 255 characters are allowed, got nothing but white space"},
		{`{"key":"a","title":"` + strings.Repeat("t", 256) + `","to":["x"]}`, "title: 1 to 255 characters are allowed, got 256"},
		{`{"key":"a","title":"t","type":"noise","to":["x"]}`, `type: "noise" is not a type`},
		{`{"key":"a","title":"t","content":"` + strings.Repeat("c", 65537) + `","to":["x"]}`, "content: up to 65536 bytes"},
		{`{"key":"good","title":"another","to":["x"]}`, `key: "good" is a message with another title`},
		{`{"key":"a","title":"` + strings.Repeat("t", 1<<20) + `","to":["x"]}`, "longer than 1048576 bytes"},
	}
	lines := []string{`{"key":"good","title":"Good","to":["x"]}`}
	for _, line := range bad {
		lines = append(lines, line.line)
	}
	lines = append(lines, `{"key":"last","title":"Last","to":["y"]}`)
	file := im.writeFile("m.jsonl", strings.Join(lines, "\n"))
	report := im.mustImportMessages(importer.Options{File: file})
	if diff := cmp.Diff(importer.Report{Kind: "messages", CountsRecipients: true, LastLine: int64(len(lines)), GoodRows: 2, NewItems: 2, Recipients: 2, BadLines: int64(len(bad)), BadFile: file + ".bad"}, report); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}
	printed, aside := im.out.String(), im.readFile(file+".bad")
	for i, line := range bad {
		if want := fmt.Sprintf("line %d: ", i+2); !strings.Contains(printed, want) || !strings.Contains(printed, line.says) {
			t.Errorf("%.60s is not printed with %q", line.line, line.says)
		}
		if !strings.Contains(aside, line.line[:min(len(line.line), 1<<20)]) {
			t.Errorf("%.60s was not put aside", line.line)
		}
	}
	if _, err := im.importMessages(importer.Options{File: im.dir + "/none"}); services.CodeOf(err) != services.Invalid {
		t.Errorf("no file: %v", err)
	}
	if _, err := im.importMessages(importer.Options{File: im.writeFile("csv", strings.Repeat("a,b\n", 1001))}); services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), "JSON Lines") {
		t.Errorf("another kind of file: %v", err)
	}
}
