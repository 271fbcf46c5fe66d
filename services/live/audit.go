package live

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/projector"
	"tidings/services/rdb"
)

// boardFacts is a user's board according to the facts in SQL, in the form that Redis holds.
type boardFacts struct {
	hosts   []services.FollowedAuthor
	replays []replayEntry
}

// audit compares the hosts that a document names, and the list of replays if there is one, with the facts. It returns the facts, and
// the names of the parts that differ. It runs while others write: services/audit compares again before it believes a difference.
func (s *Service) audit(ctx context.Context, user services.UserID, shown rdb.UserSnapshot) (any, []string, error) {
	var facts boardFacts
	var err error
	if facts.hosts, err = s.followedHosts(ctx, user); err != nil {
		return nil, nil, err
	}
	var differs []string
	if !projector.SameAuthors(shown.Document.Hosts, facts.hosts) {
		differs = append(differs, "live board: hosts")
	}
	modes, err := people.FollowModesOf(ctx, s.db, user)
	if err != nil {
		return nil, nil, err
	}
	// Modes are compared apart from the hosts: a mode may be wrong although the set of hosts is right.
	if slices.ContainsFunc(shown.Document.Hosts, func(host services.FollowedAuthor) bool {
		return host.CountsNothing != (modes[host.Author] == services.FollowNone)
	}) {
		differs = append(differs, "live board: modes of follows")
	}
	// Replays of big hosts are not pushed to idle users, whose lists are rebuilt when they return.
	held := parseReplays(shown.Lists[replaysList.KeyPart])
	if !held.listReady || s.projector.IsOfIdleUser(shown.Document) {
		return facts, differs, nil
	}
	found, err := s.replayFacts(ctx, user)
	if err != nil {
		return nil, nil, err
	}
	// A list may have been trimmed to fewer replays than a rebuild gives. Only replays above the list's floor are compared: the list
	// does not claim to have the others.
	above := func(entry replayEntry) bool {
		return held.floor.ID == 0 || entry.Position.Before(held.floor)
	}
	for _, entry := range found.Entries {
		if above(entry) {
			facts.replays = append(facts.replays, entry)
		}
	}
	// The floor records that older replays are missing. A list that has a floor and room for more should have been dropped.
	short := len(held.entries) < services.FeedRetention && held.floor.ID > 0
	if held.invalidMembers > 0 || short || !slices.Equal(facts.replays, held.entries) {
		differs = append(differs, "live board: replays")
	}
	return facts, differs, nil
}
