package main

// people makes users as a host application does, which tells of each.
func (n *node) people(keys ...string) {
	n.tb.Helper()
	events := make([]any, len(keys))
	for i, key := range keys {
		events[i] = map[string]any{"setProfile": map[string]any{"as": "user:" + key}}
	}
	var data struct {
		Ingest struct{ Results []struct{ Error any } }
	}
	n.must("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{error{message}}}}`, map[string]any{"e": events}, &data)
	for i, result := range data.Ingest.Results {
		if result.Error != nil {
			n.tb.Fatalf("%s: %v", keys[i], result.Error)
		}
	}
}
