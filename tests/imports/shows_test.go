package imports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/importer"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/live/livetest"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// importShows runs Shows with the clock and the output of the test.
func (im *testImporter) importShows(db importer.DB, opts importer.Options) (importer.Report, error) {
	opts.Clock, opts.Out, opts.Quiet = im, &im.out, true
	im.out.Reset()
	report, err := live.ImportFile(im.t.Context(), db, services.NewIDClock(im, 7), opts)
	report.Took = 0
	return report, err
}

func (im *testImporter) mustImportShows(opts importer.Options) importer.Report {
	im.t.Helper()
	report, err := im.importShows(im.db, opts)
	if err != nil {
		im.t.Fatalf("%v\n%s", err, im.out.String())
	}
	return report
}

// showLine prints a show in one line: key, status and times.
func showLine(key string, show live.Show) string {
	at := func(name string, t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return " " + name + " " + t.Format("02T15:04:05.000")
	}
	return key + " " + string(show.Status) + at("planned", show.PlannedAt) + at("started", show.StartedAt) + at("ended", show.EndedAt) + at("cancelled", show.CancelledAt)
}

// showsFile is a file with a replay, a live show, an upcoming show, a blank line and two cancelled shows.
const showsFile = `{"key":"s1","host":"ann","title":"One","plannedAt":"2026-01-30T20:00:00Z","startedAt":"2026-01-30T20:01:00.5Z","endedAt":1769806800007,"replayUrl":"https://a.example/r","coverUrl":"https://a.example/c"}
{"key":"s2","host":"bob","title":"Two","plannedAt":"2026-01-31T11:00:00+00:00","startedAt":"1769857260000"}
{"key":"s3","host":"ann","title":"Three","plannedAt":"2026-02-01T20:00:00Z","endedAt":null}

{"key":"s4","host":"bob","title":"Four","plannedAt":"2026-01-30T21:00:00Z","cancelled":true}
{"key":"s5","host":"ann","title":"Five","plannedAt":"2026-02-01T21:00:00Z","cancelled":true}
`

// boardKeys is a follower's present board, by the keys of the shows.
func boardKeys(w *fanouttest.World, reader services.UserID, shows map[string]live.Show) (keys []string) {
	w.TB.Helper()
	_, err := w.Caches.Changelog.RunOnce(w.TB.Context())
	w.Must(err)
	board, err := livetest.Service(w).Board(w.TB.Context(), reader, live.BoardRequest{First: 100})
	w.Must(err)
	names := map[services.ShowID]string{}
	for key, show := range shows {
		names[show.ID] = key
	}
	for _, item := range board.Items {
		keys = append(keys, names[item.Show.ID])
	}
	return keys
}

// Imported shows have their own times and are on boards: shows of new hosts as soon as their followers' documents name the hosts,
// others at once. Ended shows are in the lists of replays. A second import changes nothing.
func TestImportedShows(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		w := addShowService(fanouttest.New(t, fanouttest.Options{SQLURL: url, RedisURL: "embedded"}))
		im := newImporter(t, w.DB)
		file := im.writeFile("season.jsonl.gz", gzipText(t, showsFile))
		keys := []string{"s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", ""}
		if diff := cmp.Diff(importer.Report{Kind: "shows", LastLine: 6, GoodRows: 5, NewItems: 5}, im.mustImportShows(importer.Options{File: file, BatchSize: 2})); diff != "" {
			t.Fatalf("the report (-want +got):\n%s", diff)
		}
		want := []string{
			"s1 REPLAY planned 30T20:00:00.000 started 30T20:01:00.500 ended 30T21:00:00.007", "s2 LIVE planned 31T11:00:00.000 started 31T11:01:00.000",
			"s3 UPCOMING planned 01T20:00:00.000", "s4 CANCELLED planned 30T21:00:00.000 cancelled 30T21:00:00.000",
			"s5 CANCELLED planned 01T21:00:00.000 cancelled 31T12:00:00.000",
		}
		lines, shows := im.readShows(keys...)
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("the shows (-want +got):\n%s", diff)
		}
		if one := shows["s1"]; one.Title != "One" || one.CoverURL != "https://a.example/c" || one.ReplayURL != "https://a.example/r" || one.Version != 0 {
			t.Errorf("the first is %+v", one)
		}
		ann, bob, reader := shows["s1"].Host, shows["s2"].Host, w.MakeUsers(1)[0]
		w.Follow(ann, reader)
		w.Follow(bob, reader)
		w.RunAllJobs(w.Fanout)
		if diff := cmp.Diff([]string{"s2", "s3", "s1"}, boardKeys(w, reader, shows)); diff != "" {
			t.Errorf("the board (-want +got):\n%s", diff)
		}
		more := `{"key":"s6","host":"ann","title":"Six","plannedAt":"2026-01-31T11:30:00Z","startedAt":"2026-01-31T11:30:00Z"}
{"key":"s7","host":"bob","title":"Seven","plannedAt":"2026-01-29T11:30:00Z","startedAt":"2026-01-29T11:30:00Z","endedAt":"2026-01-31T11:30:00Z"}
{"key":"s2","host":"bob","title":"as it is","plannedAt":"2026-01-31T11:00:00Z"}
{"key":"s8","host":"ann","title":"Eight","plannedAt":"2026-02-01T19:00:00Z"}
`
		listed := func(want ...string) {
			t.Helper()
			var keys []string
			for _, id := range livetest.ListedReplays(w, reader) {
				for key, show := range shows {
					if show.ID == id {
						keys = append(keys, key)
					}
				}
			}
			if !slices.Equal(keys, want) {
				t.Errorf("the list of replays has %v, want %v", keys, want)
			}
		}
		listed("s1")
		before := livetest.Service(w).Memory.Version()
		if got := im.mustImportShows(importer.Options{File: im.writeFile("more.jsonl", more)}); got.NewItems != 3 || got.SkippedRows != 1 {
			t.Errorf("of more: %+v", got)
		}
		_, shows = im.readShows(keys...)
		if diff := cmp.Diff([]string{"s6", "s2", "s8", "s3", "s7", "s1"}, boardKeys(w, reader, shows)); diff != "" {
			t.Errorf("the board at once (-want +got):\n%s", diff)
		}
		// There is one log entry for all shows; a session from before has none of the new shows.
		if now := livetest.Service(w).Memory.Version(); now != before+1 || shows["s6"].LiveVersion != now || shows["s6"].LiveStamp != services.SortableID(shows["s6"].ID) {
			t.Errorf("the version went from %d to %d, the live one is %+v", before, now, shows["s6"])
		}
		for _, key := range []string{"s6", "s7", "s8"} {
			if _, _, there := livetest.Service(w).Memory.ShowAt(shows[key].ID, before); there {
				t.Errorf("%s was there before", key)
			}
		}
		if got := im.mustImportShows(importer.Options{File: file}); got.ResumedAfter != 6 || got.NewItems+got.SkippedRows != 0 {
			t.Errorf("of a file that is in: %+v", got)
		}
		w.RunDueJobs(w.Fanout)
		listed("s7", "s1")
		w.CheckAgainstFacts(reader)
	})
}

// An imported live show went live with the import: it counts for users who followed its host by then, whether the host is new or not,
// and not for users who follow later.
func TestAnImportedLiveShowCounts(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		w := addShowService(fanouttest.New(t, fanouttest.Options{SQLURL: url, RedisURL: "embedded"}))
		im := newImporter(t, w.DB)
		reader, late := w.MakeUsers(1)[0], w.MakeUsers(1)[0]
		var host services.UserID
		w.Write(func(ctx context.Context, tx *sql.Tx) error {
			known, err := people.Ensure(ctx, tx, []string{"ann"})
			host = known["ann"]
			return err
		})
		w.Follow(host, reader)
		w.RunAllJobs(w.Fanout)
		w.Clock.Advance(time.Second)
		im.now = w.Clock.Now()
		count := func(user services.UserID) int {
			w.RunAllJobs(w.Fanout)
			_, err := w.Caches.Changelog.RunOnce(t.Context())
			w.Must(err)
			return livetest.Service(w).Memory.CountLive(w.Document(user).Hosts, 0).NewShows
		}
		line := func(key string) string {
			started := w.Clock.Now().Add(-time.Hour).Format(time.RFC3339)
			return fmt.Sprintf(`{"key":"%s","host":"ann","title":"t","plannedAt":"%s","startedAt":"%s"}`+"\n", key, started, started)
		}
		im.mustImportShows(importer.Options{File: im.writeFile("one.jsonl", line("one"))})
		if got := count(reader); got != 1 {
			t.Errorf("the first show of a host: %d count, want 1", got)
		}
		im.mustImportShows(importer.Options{File: im.writeFile("two.jsonl", line("two"))})
		if got := count(reader); got != 2 {
			t.Errorf("the next one: %d count, want 2", got)
		}
		w.Clock.Advance(time.Second)
		w.Follow(host, late)
		if got := count(late); got != 0 {
			t.Errorf("for a later follower %d count, want none", got)
		}
		_, shows := im.readShows("one", "two")
		if got := boardKeys(w, late, shows); len(got) != 2 {
			t.Errorf("the later follower's board has %v", got)
		}
	})
}

// One job adds a host's replays, for any number of them in a batch, and each follower of the host gets the newest in their list,
// whether documents name the host already or not.
func TestManyImportedReplaysAreOneJob(t *testing.T) {
	w := addShowService(fanouttest.New(t, fanouttest.Options{Fanout: func(cfg *fanout.Config) { cfg.ChunkSize = 2 }}))
	im := newImporter(t, w.DB)
	replays := func(name, host string, count int) {
		t.Helper()
		var text strings.Builder
		for i := range count {
			at := im.Now().Add(time.Duration(i-2*count) * time.Minute).Format(time.RFC3339)
			fmt.Fprintf(&text, `{"key":"%s%d","host":"%s","title":"t","plannedAt":"%s","startedAt":"%s","endedAt":"%s"}`+"\n", name, i, host, at, at, at)
		}
		if got := im.mustImportShows(importer.Options{File: im.writeFile(name, text.String())}); got.NewItems != int64(count) {
			t.Fatalf("imported: %+v", got)
		}
	}
	jobs := func(want int) {
		t.Helper()
		if waiting, dead := w.CountJobs(); waiting != want || dead > 0 {
			t.Errorf("%d jobs wait, %d are dead, want %d", waiting, dead, want)
		}
	}
	replays("a", "ann", 3)
	ids, err := people.IDs(t.Context(), w.DB, []string{"ann"})
	w.Must(err)
	readers := w.MakeUsers(5)
	w.Follow(ids["ann"], readers...)
	w.RunAllJobs(w.Fanout)
	lists := func(want int) {
		t.Helper()
		for _, reader := range readers {
			if got := len(livetest.ListedReplays(w, reader)); got != want {
				t.Errorf("user %d has %d replays, want %d", reader, got, want)
			}
		}
		w.CheckAgainstFacts(readers...)
	}
	lists(3)
	jobs(0)
	replays("b", "ann", 40)
	jobs(1)
	w.RunAllJobs(w.Fanout)
	lists(43)
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		known, err := people.Ensure(ctx, tx, []string{"ben"})
		ids["ben"] = known["ben"]
		return err
	})
	w.Follow(ids["ben"], readers...)
	w.RunAllJobs(w.Fanout)
	replays("c", "ben", 400)
	jobs(1)
	w.RunAllJobs(w.Fanout)
	lists(services.FeedRetention)
}

// An imported show of which nothing else is reported is closed as other shows are: 6 hours after its plan if it has not started, and 12
// hours after its start if it has not ended.
func TestImportedShowsAreClosed(t *testing.T) {
	w := addShowService(fanouttest.New(t, fanouttest.Options{}))
	im := newImporter(t, w.DB)
	im.mustImportShows(importer.Options{File: im.writeFile("old.jsonl", `{"key":"late","host":"ann","title":"a","plannedAt":"2026-01-31T05:00:00Z"}
{"key":"long","host":"ann","title":"a","plannedAt":"2026-01-30T05:00:00Z","startedAt":"2026-01-30T05:00:00Z"}
{"key":"young","host":"ann","title":"a","plannedAt":"2026-01-31T09:00:00Z"}
`)})
	w.RunDueJobs(w.Fanout)
	want := []string{
		"late CANCELLED planned 31T05:00:00.000 cancelled 31T11:00:00.000", "long REPLAY planned 30T05:00:00.000 started 30T05:00:00.000 ended 30T17:00:00.000",
		"young UPCOMING planned 31T09:00:00.000",
	}
	if lines, _ := im.readShows("late", "long", "young"); !slices.Equal(lines, want) {
		t.Errorf("they are\n%s", strings.Join(lines, "\n"))
	}
}

// An import that breaks at any of its writes, before the commit or after it, has the same result as one that does not break.
func TestAnInterruptedImportOfShowsResumes(t *testing.T) {
	var text strings.Builder
	keys := []string{}
	for i := range 30 {
		keys = append(keys, fmt.Sprintf("k%d", i))
		fmt.Fprintf(&text, `{"key":"k%d","host":"h%d","title":"t","plannedAt":"2026-02-01T09:%02d:00Z"}`+"\n", i, i%3, i)
		if i%10 == 9 {
			fmt.Fprintf(&text, `{"key":"k%d","host":"other","title":"t","plannedAt":"2026-02-01T09:00:00Z"}`+"\n", i-5)
		}
	}
	whole := sqliteImporter(t)
	counter := &breakingStore{DB: whole.db}
	want, err := whole.importShows(counter, importer.Options{File: whole.writeFile("f.jsonl", text.String()), BatchSize: 7})
	if err != nil || want.NewItems != 30 || want.BadLines != 3 || counter.writeCount < 4 {
		t.Fatalf("the import that does not break: %v, %d writes, %+v", err, counter.writeCount, want)
	}
	wantLines, _ := whole.readShows(keys...)
	wantBad := whole.readFile(want.BadFile)
	if !strings.Contains(wantBad, `# line 11: key: "k4" is a show of "h1": it cannot be moved to another host`) {
		t.Errorf("the bad lines:\n%s", wantBad)
	}
	for n := range 2 * counter.writeCount {
		im := sqliteImporter(t)
		opts := importer.Options{File: im.writeFile("f.jsonl", text.String()), BatchSize: 7}
		if _, err := im.importShows(&breakingStore{DB: im.db, failAtWrite: n/2 + 1, failAfterCommit: n%2 == 1}, opts); !errors.Is(err, errConnectionGone) {
			t.Fatalf("run %d: %v", n, err)
		}
		got := im.mustImportShows(opts)
		lines, _ := im.readShows(keys...)
		if got.BadLines != 3 || im.readFile(got.BadFile) != wantBad || !slices.Equal(lines, wantLines) {
			t.Errorf("run %d: %+v\n%s\n%s", n, got, im.readFile(got.BadFile), strings.Join(lines, "\n"))
		}
		if waiting, _, _, err := jobs.JobCounts(t.Context(), im.db); err != nil || waiting < 33 {
			t.Errorf("run %d: %d jobs, %v", n, waiting, err)
		}
	}
}

// Bad lines are reported, written to the file of bad lines and make no show; the others are imported.
func TestBadLinesOfShows(t *testing.T) {
	im := sqliteImporter(t)
	line := func(key string, fields string) string {
		return `{"key":"` + key + `","host":"x","title":"t",` + fields + `}`
	}
	const plan = `"plannedAt":"2026-01-31T10:00:00Z"`
	const noObject = "not one JSON object with key, host, title, plannedAt, startedAt, endedAt, cancelled, coverUrl and replayUrl"
	bad := []struct{ line, says string }{ // says is a part of the reason that is written above the line
		{`not JSON`, noObject + ""},
		{`[]`, noObject + ": it is a list"},
		{`"x"`, noObject + ": it is a text"},
		{`12`, noObject + ": it is a number"},
		{`-1.5e3`, noObject + ": it is a number"},
		{`null`, noObject + ": it is null"},
		{`true`, noObject + ": it is true or false"},
		{`{"key":"a","host":"x","title":"t","cancelled":"yes","plannedAt":1}`, "cancelled: true or false is needed, got a text"},
		{line("a", plan+`,"extra":1`), "extra"},
		{line("", plan), "key: a ref has 1 to 128 characters, got 0"},
		{`{"key":"a","title":"t",` + plan + `}`, "host: a key is empty"},
		{`{"key":"a","host":"a ","title":"t",` + plan + `}`, `host: user key "a "`},
		{`{"key":"a","host":"x","title":"",` + plan + `}`, "title: 1 to 255 characters are allowed, got 0"},
		{`{"key":"a","host":"x","title":" \t\u3000",` + plan + `}`, "title: 1 to 255 characters are allowed, got nothing but white space"},
		{line("a", plan+`,"coverUrl":"ftp://a"`), "coverUrl"},
		{line("a", plan+`,"replayUrl":"a b"`), "replayUrl"},
		{line("a", `"cancelled":false`), "plannedAt is needed"},
		{line("a", `"plannedAt":"tonight"`), `"tonight" is not a time: one like`},
		{line("a", `"plannedAt":true`), `"true" is not a time`},
		{line("a", `"plannedAt":"2027-02-03T10:00:00Z"`), "more than 366 days ahead"},
		{line("a", `"plannedAt":-5`), "before 1970"},
		{line("a", plan+`,"startedAt":"2026-01-31T12:00:01Z"`), "startedAt is 2026-01-31T12:00:01Z: it is before 1970 or in the future"},
		{line("a", plan+`,"endedAt":"2026-01-31T11:00:00Z"`), "endedAt is 2026-01-31T11:00:00Z: startedAt is needed too"},
		{line("a", plan+`,"startedAt":"2026-01-31T11:00:00Z","endedAt":"2026-01-31T10:59:59.999Z"`), "it is before startedAt"},
		{line("a", plan+`,"startedAt":"2026-01-31T11:00:00Z","endedAt":"2026-01-31T12:00:01Z"`), "it is in the future"},
		{line("a", plan+`,"startedAt":"2026-01-31T11:00:00Z","cancelled":true`), "cancelled: a show that has started or ended cannot be"},
		{`{"key":"good","host":"y","title":"t",` + plan + `}`, `key: "good" is a show of "x": it cannot be moved to another host`},
		{line("a", `"coverUrl":"`+strings.Repeat("b", 1<<17)+`"`), "longer than 131072 bytes"},
	}
	lines := []string{line("good", plan)}
	for _, one := range bad {
		lines = append(lines, one.line)
	}
	file := im.writeFile("s.jsonl", strings.Join(lines, "\n")+"\n")
	got := im.mustImportShows(importer.Options{File: file})
	if want := (importer.Report{Kind: "shows", LastLine: int64(len(lines)), GoodRows: 1, NewItems: 1, BadLines: int64(len(bad)), BadFile: file + ".bad"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	put := im.readFile(file + ".bad")
	if strings.Contains(put, "Go ") || strings.Contains(put, "showRow") {
		t.Errorf("it speaks of types of the program:\n%.3000s", put)
	}
	for i, one := range bad {
		at := strings.Index(put, fmt.Sprintf("# line %d: ", i+2))
		if at < 0 || !strings.Contains(strings.SplitN(put[at:], "\n", 2)[0], one.says) {
			t.Errorf("line %d is to say %q:\n%.300s", i+2, one.says, put[max(0, at):])
		}
	}
	if ids, err := people.IDs(t.Context(), im.db, []string{"x", "y", "a b"}); err != nil || len(ids) != 1 {
		t.Errorf("the users are %v, %v", ids, err)
	}
	noise := strings.Repeat("{}\n", 1_000+1)
	if _, err := im.importShows(im.db, importer.Options{File: im.writeFile("n.jsonl", noise)}); services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), `{"key":"s1","host":"alice"`) {
		t.Errorf("of another file: %v", err)
	}
}

var _ importer.DB = (*sql.DB)(nil)
