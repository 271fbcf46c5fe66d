package imports

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/importer"
	"tidings/services/jobs"
	"tidings/services/live/livetest"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// showLinesOfEachStatus are the lines of an import in which each host has one show of each status.
func showLinesOfEachStatus(hosts []string, now time.Time) (keys []string, lines string) {
	at := func(minutes int) string { return now.Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339) }
	for _, host := range hosts {
		for kind, fields := range map[string]string{
			"live":   fmt.Sprintf(`"plannedAt":"%s","startedAt":"%s"`, at(-60), at(-60)),
			"plan":   fmt.Sprintf(`"plannedAt":"%s"`, at(60)),
			"replay": fmt.Sprintf(`"plannedAt":"%s","startedAt":"%s","endedAt":"%s"`, at(-90), at(-90), at(-80)),
			"none":   fmt.Sprintf(`"plannedAt":"%s","cancelled":true`, at(60)),
		} {
			keys = append(keys, host+kind)
			lines += fmt.Sprintf(`{"key":"%s","host":"%s","title":"t",%s}`+"\n", host+kind, host, fields)
		}
	}
	return keys, lines
}

// One job names the many new hosts of an import in followers' documents, and one changelog entry puts their shows onto boards, except
// those of a host with many followers. In the end every follower's document, board, count and list of replays is right, and a session of
// the live board from before has none of the shows.
func TestManyNewHostsArePublishedTogether(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		w := addShowService(fanouttest.New(t, fanouttest.Options{SQLURL: url, RedisURL: "embedded", Fanout: func(cfg *fanout.Config) { cfg.ChunkSize = 3 }}))
		im := newImporter(t, w.DB)
		const hosts = 12
		names := make([]string, hosts)
		for i := range names {
			names[i] = fmt.Sprintf("host%d", i)
		}
		var ids map[string]services.UserID
		w.Write(func(ctx context.Context, tx *sql.Tx) (err error) {
			ids, err = people.Ensure(ctx, tx, names)
			return err
		})
		readers := w.MakeUsers(6)
		w.Follow(ids["host0"], readers...) // more than a chunk
		for i, name := range names[1 : hosts-1] {
			w.Follow(ids[name], readers[i%5], readers[5])
		}
		w.RunAllJobs(w.Fanout)
		before := livetest.Service(w).Memory.Version()
		w.Clock.Advance(time.Second)
		im.now = w.Clock.Now()
		keys, lines := showLinesOfEachStatus(names, im.now)
		im.mustImportShows(importer.Options{File: im.writeFile("f.jsonl", lines)})
		if waits, _, _, err := jobs.JobCounts(t.Context(), w.DB); err != nil || waits != 2*hosts+1 {
			t.Errorf("%d jobs wait (%v), want two a host that close shows, and one that names all", waits, err)
		}
		w.RunAllJobs(w.Fanout)
		_, err := w.Caches.Changelog.RunOnce(t.Context())
		w.Must(err)
		// The changelog has one entry for the hosts with few followers, and one for each show of the host with many.
		if got := livetest.Service(w).Memory.Version() - before; got != 1+3 {
			t.Errorf("the log has %d entries, want 4", got)
		}
		_, shows := im.readShows(keys...)
		for key, show := range shows {
			if cancelled := strings.HasSuffix(key, "none"); (show.Version == 0) != cancelled || (show.LiveVersion == 0) != !strings.HasSuffix(key, "live") {
				t.Errorf("%s is %+v", key, show)
			}
			if _, known, there := livetest.Service(w).Memory.ShowAt(show.ID, before); there || known == strings.HasSuffix(key, "none") {
				t.Errorf("%s: known %t, on a board of before %t", key, known, there)
			}
		}
		for i, reader := range readers {
			followed := 0
			for _, edge := range w.Document(reader).Hosts {
				if edge.Author != 0 {
					followed++
				}
			}
			want := 3 // the first host, and two of ten
			if i == 5 {
				want = hosts - 1
			}
			got := boardKeys(w, reader, shows)
			kinds := map[string]int{}
			for _, key := range got {
				kinds[strings.TrimLeft(key, "host0123456789")]++
			}
			if followed != want || kinds["live"] != want || kinds["plan"] != want || len(got) != 3*want {
				t.Errorf("reader %d follows %d hosts, their board has %v", i, followed, got)
			}
			if count := livetest.Service(w).Memory.CountLive(w.Document(reader).Hosts, 0); count.NewShows != want {
				t.Errorf("reader %d counts %+v, want %d", i, count, want)
			}
			if list := livetest.ListedReplays(w, reader); len(list) != want {
				t.Errorf("reader %d has %d replays, want %d", i, len(list), want)
			}
		}
		w.CheckAgainstFacts(readers...)
		// A host who is imported again is known already: the shows are on boards at once, without a job for the host.
		im.mustImportShows(importer.Options{File: im.writeFile("g.jsonl", fmt.Sprintf(`{"key":"again","host":"host11","title":"t","plannedAt":"%s"}`+"\n", im.now.Add(time.Hour).Format(time.RFC3339)))})
		if _, shows := im.readShows("again"); shows["again"].Version == 0 {
			t.Errorf("the next show of a named host waits: %+v", shows["again"])
		}
	})
}
