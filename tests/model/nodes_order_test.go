package model

import (
	"fmt"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// notificationsPanel is the first page of a user's notifications, with the count in the badges and the items that explain this count.
type notificationsPanel struct {
	Viewer struct {
		Badges        struct{ Notifications struct{ Total world.Count } }
		Notifications struct {
			Edges []struct {
				Node struct {
					ID      string
					UpTo    string // the value of upTo that marks this row and older ones as seen
					At      time.Time
					Seen    bool
					Subject struct{ ID string }
				}
			}
		}
		BadgeExplained []struct {
			Source string
			Items  []struct{ NodeID string }
		}
	}
}

// readNotificationsPanel reads the panel as a user.
func readNotificationsPanel(t *testing.T, url, as string) (read notificationsPanel) {
	t.Helper()
	query := `{viewer{badges{notifications{total{value precision}}}badgeExplained{source items{nodeId}}notifications(first:100){edges{node{id upTo at seen subject{id}}}}}}`
	if err := world.Ask(url, as, query, nil, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// checkCountsAgree returns an error if the count, its explanation and the unseen rows of the list differ, or the list is not in the order
// of time.
func (p *notificationsPanel) checkCountsAgree() error {
	unseen, explained := 0, 0
	for i, edge := range p.Viewer.Notifications.Edges {
		if !edge.Node.Seen {
			unseen++
		}
		if i > 0 && edge.Node.At.After(p.Viewer.Notifications.Edges[i-1].Node.At) {
			return fmt.Errorf("line %d is of %v, and the line above of %v", i, edge.Node.At, p.Viewer.Notifications.Edges[i-1].Node.At)
		}
	}
	for _, explanation := range p.Viewer.BadgeExplained {
		if explanation.Source == "NOTIFICATIONS" {
			explained += len(explanation.Items)
		}
	}
	if number := p.Viewer.Badges.Notifications.Total.Value; unseen != number || explained != number {
		return fmt.Errorf("%d are listed as unseen, the number is %d, explained are %d", unseen, number, explained)
	}
	return nil
}

// A node is killed while it holds the leases of jobs that notify authors of likes. In the end, the lists of notifications on both nodes
// are in the order in which people were notified. An author who was shown a list after the kill and marks it as seen, up to its newest
// row, marks no row that came later.
func TestNotificationsKeepTheirOrderWhenANodeIsKilled(t *testing.T) {
	const authors, posts = 12, 40
	database, redis := sqltest.Postgres(t), redistest.Redis(t)
	start := func(name string) *world.Process {
		return world.StartServingProcess(t, "", "--database", database, "--redis", redis, "--node", name)
	}
	a, b := start("a"), start("b")
	author := func(i int) string { return fmt.Sprintf("author-%d", i) }
	ingest := func(url string, events []map[string]any) (ids []string) {
		t.Helper()
		var data struct {
			Ingest struct{ Results []struct{ ID string } }
		}
		if err := world.Ask(url, "host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{id}}}`, map[string]any{"e": events}, &data); err != nil {
			t.Fatal(err)
		}
		for _, result := range data.Ingest.Results {
			ids = append(ids, result.ID)
		}
		return ids
	}
	var publish []map[string]any
	for range posts {
		for i := range authors {
			publish = append(publish, map[string]any{"as": "user:" + author(i), "do": map[string]any{"publishPost": map[string]any{"body": "b"}}})
		}
	}
	var likes []map[string]any
	for _, post := range ingest(a.URL, publish) {
		likes = append(likes, map[string]any{"as": "user:fan", "do": map[string]any{"likePost": map[string]any{"postId": post}}})
	}
	// The nodes claim jobs but cannot run them, because the table is locked. Then the first node dies.
	release := sqltest.LockTable(t, database, "notification_causes")
	ingest(a.URL, likes[:len(likes)/2])
	ingest(a.URL, publish[:100]) // while these requests run, the node's workers claim jobs
	a.Kill()
	release()
	ingest(b.URL, likes[len(likes)/2:])
	shown := make([]notificationsPanel, authors)
	for i := range authors {
		shown[i] = readNotificationsPanel(t, b.URL, author(i))
	}
	wants := func(node *world.Process, unseen func(i int) int) {
		t.Helper()
		for i := range authors {
			// On a busy machine it takes long until all causes are applied. How soon a dead node's jobs are done is checked in
			// tests/faults.
			world.EventuallySucceeds(t, time.Minute, func() error {
				read := readNotificationsPanel(t, node.URL, author(i))
				if listed, number := len(read.Viewer.Notifications.Edges), read.Viewer.Badges.Notifications.Total.Value; listed != posts || number != unseen(i) {
					return fmt.Errorf("%s: %d are listed and %d unseen, want %d and %d", author(i), listed, number, posts, unseen(i))
				}
				return read.checkCountsAgree()
			})
		}
	}
	wants(b, func(int) int { return posts })
	a = start("a")
	seen := func(i int, list notificationsPanel) {
		t.Helper()
		if edges := list.Viewer.Notifications.Edges; len(edges) > 0 {
			if err := world.Ask(a.URL, author(i), `mutation($n:ID!){markNotificationsSeen(input:{upTo:$n}){badges{version}}}`, map[string]any{"n": edges[0].Node.UpTo}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, list := range shown {
		seen(i, list)
	}
	wants(a, func(i int) int { return posts - len(shown[i].Viewer.Notifications.Edges) })
	for i := range authors {
		seen(i, readNotificationsPanel(t, b.URL, author(i)))
	}
	wants(b, func(int) int { return 0 })
}
