package nodes

import (
	"slices"
	"testing"

	"tidings/tests/world"
)

// allJobKinds are the names of all kinds of jobs. A name outlives the program that wrote it into the queue: a job of a kind that
// no node knows waits forever. So a kind that is no longer used stays registered, and in this list, until no queue can hold a job
// of it.
var allJobKinds = []string{
	"actor", "announcement.start", "author.mode", "author.modes", "author.name", "chat.carry", "chat.inside",
	"chat.member", "chat.pass", "counts", "erase", "feed.seen", "follow", "host.chunk", "host.name", "host.names",
	"host.replays", "live.seen", "message.deliver", "messages", "mute.end", "notices", "notify", "notify.host",
	"notify.purge", "notify.withdraw", "policy",
	"post.copy", "post.drop", "post.fanout", "post.online", "post.push", "post.remove", "profile", "refill",
	"show.close", "show.end", "show.remind", "show.replay", "view.chunk", "view.item", "view.readers", "views",
}

func TestANodeKnowsEveryKindOfJob(t *testing.T) {
	known := world.StartNode(t, world.NodeOptions{ManualStepping: true}).Jobs.Kinds()
	for _, kind := range allJobKinds {
		if !slices.Contains(known, kind) {
			t.Errorf("no feature registers %s", kind)
		}
	}
	for _, kind := range known {
		if !slices.Contains(allJobKinds, kind) {
			t.Errorf("%s is new: add it to the list", kind)
		}
	}
}
