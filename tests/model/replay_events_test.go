package model

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// eventIndex is the index of an earlier event of the history. In an input it stands for the ID of the object that the event made.
type eventIndex int

// pastEvent is one event of a history.
type pastEvent struct {
	as     string // "" for the host application
	name   string
	input  map[string]any
	at     time.Time
	device string // "" for none
}

// history draws the events of a history. It knows which objects the events make, but not whether the server allows the events.
type history struct {
	t      *rapid.T
	people []string
	group  string    // the ID of a conversation of all people, on both nodes
	clock  time.Time // the time of the present event
	events []pastEvent
	made   map[string][]eventIndex // the objects that each action made
	owner  map[eventIndex]string   // who acted in each event
	due    []time.Time             // times at which jobs are due between the events
}

func (h *history) person(label string) string { return rapid.SampledFrom(h.people).Draw(h.t, label) }

// drawObject draws an object that an action made; the result is false if there is none.
func (h *history) drawObject(action string) (eventIndex, bool) {
	if len(h.made[action]) == 0 {
		return 0, false
	}
	return rapid.SampledFrom(h.made[action]).Draw(h.t, action), true
}

// add appends an event at the present time.
func (h *history) add(as, name string, input map[string]any) {
	place := eventIndex(len(h.events))
	if slices.Contains([]string{"publishPost", "sendMessage", "publishAnnouncement", "scheduleShow"}, name) {
		h.made[name] = append(h.made[name], place)
	}
	h.owner[place] = as
	h.events = append(h.events, pastEvent{as: as, name: name, input: input, at: h.clock})
}

// drawLaterTime draws a time after the present event, at which no event happens, and notes that a job is due then.
func (h *history) drawLaterTime(label string) string {
	hours := rapid.IntRange(0, 40).Draw(h.t, label)
	at := h.clock.Add(time.Duration(hours)*time.Hour + 30*time.Second)
	h.due = append(h.due, at)
	return at.UTC().Format(time.RFC3339)
}

func userID(key string) string { return "user:" + key }

// next draws one event.
func (h *history) next() {
	h.clock = h.clock.Add(time.Duration(rapid.SampledFrom([]int{1, 3, 40, 300}).Draw(h.t, "minutes")) * time.Minute)
	draw := rapid.SampledFrom([]func(){
		h.post, h.post, h.like, h.like, h.follow, h.follow, h.restrict, h.markFeed, h.markFeed, h.markNotifications, h.markNotifications,
		h.siteMessage, h.announce, h.dot, h.message, h.message, h.markTalk, h.visit, h.visit, h.show, h.show, h.view, h.changePost,
	}).Draw(h.t, "kind")
	draw()
}

func (h *history) post() {
	as, input := h.person("author"), map[string]any{"body": fmt.Sprintf("b%d", len(h.events))}
	if rapid.Bool().Draw(h.t, "mentions") {
		input["mentions"] = []string{userID(h.person("mentioned"))}
	}
	if parent, some := h.drawObject("publishPost"); some && rapid.Bool().Draw(h.t, "answers") {
		input["parentId"] = parent
	}
	h.add(as, "publishPost", input)
}

func (h *history) like() {
	if post, some := h.drawObject("publishPost"); some {
		h.add(h.person("liker"), rapid.SampledFrom([]string{"likePost", "likePost", "unlikePost"}).Draw(h.t, "verb"), map[string]any{"postId": post})
	}
}

// changePost edits or deletes a post.
func (h *history) changePost() {
	post, some := h.drawObject("publishPost")
	if !some {
		return
	}
	if rapid.Bool().Draw(h.t, "delete") {
		h.add(h.owner[post], "deletePost", map[string]any{"postId": post})
		return
	}
	h.add(h.owner[post], "editPost", map[string]any{"postId": post, "body": fmt.Sprintf("e%d", len(h.events)), "mentions": []string{userID(h.person("mentioned"))}})
}

func (h *history) follow() {
	h.add(h.person("follower"), rapid.SampledFrom([]string{"follow", "follow", "follow", "unfollow"}).Draw(h.t, "verb"), map[string]any{"userId": userID(h.person("followee"))})
}

// restrict adds a mute, a block or a hide, or its end.
func (h *history) restrict() {
	verb := rapid.SampledFrom([]string{"mute", "mute", "unmute", "block", "unblock", "hideFrom", "unhideFrom"}).Draw(h.t, "verb")
	input := map[string]any{"userId": userID(h.person("other"))}
	if verb == "mute" && rapid.Bool().Draw(h.t, "timed") {
		input["until"] = h.drawLaterTime("until")
	}
	h.add(h.person("owner"), verb, input)
}

func (h *history) markFeed() { h.add(h.person("reader"), "markHomeFeedSeen", map[string]any{}) }

func (h *history) markNotifications() {
	as := h.person("reader")
	switch rapid.IntRange(0, 3).Draw(h.t, "mark") {
	case 0:
		h.add(as, "markNotificationsSeen", map[string]any{"categories": []string{"LIKE", "FOLLOW"}})
	case 1:
		h.add(as, "markNotificationsSeen", map[string]any{})
	case 2:
		h.add(as, "markNotificationsRead", map[string]any{"categories": []string{"LIKE", "MENTION"}})
	default:
		h.add(as, "markAllRead", map[string]any{})
		if rapid.Bool().Draw(h.t, "undone") {
			h.addWithin(rapid.SampledFrom([]int{10, 29, 40}).Draw(h.t, "seconds"), func() { h.add(as, "undoMarkAllRead", map[string]any{}) })
		}
	}
}

// undoes reports whether an event is an undo. A live undo of a mark that marked nothing gets CONFLICT. An undo that is reported
// late waits for events that may still be reported, and then changes nothing either.
func undoes(event map[string]any) bool {
	_, is := event["do"].(map[string]any)["undoMarkAllRead"]
	return is
}

// addWithin adds events that happen some seconds after the present event, within its minute.
func (h *history) addWithin(seconds int, add func()) {
	minute := h.clock
	h.clock = h.clock.Add(time.Duration(seconds) * time.Second)
	add()
	h.clock = minute
}

// visit opens the conversation on a device. Some messages come while it is open. An event closes the conversation, or the visit
// times out five seconds into the next minute.
func (h *history) visit() {
	as, device := h.person("visitor"), rapid.SampledFrom([]string{"phone", "laptop"}).Draw(h.t, "device")
	add := func(verb string) {
		h.add(as, verb, map[string]any{"conversationId": h.group})
		h.events[len(h.events)-1].device = device
	}
	h.addWithin(5, func() { add("enterConversation") })
	for _, seconds := range []int{12, 25} {
		if rapid.Bool().Draw(h.t, "message") {
			h.addWithin(seconds, func() { h.say(h.person("author")) })
		}
	}
	if rapid.Bool().Draw(h.t, "leaves") {
		h.addWithin(35, func() { add("leaveConversation") })
		if rapid.Bool().Draw(h.t, "message afterwards") {
			h.addWithin(45, func() { h.say(h.person("author")) })
		}
	}
}

// siteMessage adds an event of a site message: it is sent, or all are marked read.
func (h *history) siteMessage() {
	if rapid.Bool().Draw(h.t, "send") {
		h.add("", "sendSiteMessage", map[string]any{"title": fmt.Sprintf("l%d", len(h.events)), "to": []string{userID(h.person("to")), userID(h.person("and"))}})
		return
	}
	h.add(h.person("reader"), "markSiteMessagesRead", map[string]any{"all": true})
}

func (h *history) announce() {
	switch rapid.IntRange(0, 3).Draw(h.t, "announce") {
	case 0:
		h.add(h.person("reader"), "markAnnouncementsRead", map[string]any{})
	case 1:
		if one, some := h.drawObject("publishAnnouncement"); some {
			h.add("", "withdrawAnnouncement", map[string]any{"announcementId": one})
		}
	default:
		input := map[string]any{"title": fmt.Sprintf("a%d", len(h.events))}
		if rapid.Bool().Draw(h.t, "scheduled") {
			input["startsAt"] = h.drawLaterTime("startsAt")
		} else if rapid.Bool().Draw(h.t, "ends") {
			input["endsAt"] = h.drawLaterTime("endsAt")
		}
		h.add("", "publishAnnouncement", input)
	}
}

func (h *history) dot() {
	dot := rapid.SampledFrom(worldDots).Draw(h.t, "dot")
	if rapid.Bool().Draw(h.t, "raise") {
		h.add("", "raiseDot", map[string]any{"name": dot})
		return
	}
	h.add(h.person("reader"), "clearDot", map[string]any{"name": dot})
}

// message adds an event of the conversation: a message is sent or recalled.
func (h *history) message() {
	if one, some := h.drawObject("sendMessage"); some && rapid.IntRange(0, 4).Draw(h.t, "recall") == 0 {
		h.add(h.owner[one], "recallMessage", map[string]any{"messageId": one})
		return
	}
	h.say(h.person("author"))
}

func (h *history) say(as string) {
	h.add(as, "sendMessage", map[string]any{"conversationId": h.group, "body": fmt.Sprintf("m%d", len(h.events)), "mentionIds": []string{userID(h.person("mentioned"))}})
}

func (h *history) markTalk() {
	verb := rapid.SampledFrom([]string{"markConversationRead", "markConversationRead", "muteConversation", "unmuteConversation", "joinConversation", "quitConversation"}).Draw(h.t, "verb")
	h.add(h.person("member"), verb, map[string]any{"conversationId": h.group})
}

func (h *history) show() {
	one, some := h.drawObject("scheduleShow")
	switch verb := rapid.IntRange(0, 7).Draw(h.t, "show"); {
	case verb == 0:
		h.add(h.person("viewer"), "markLiveBoardSeen", map[string]any{})
	case !some || verb <= 2:
		h.add(h.person("host"), "scheduleShow", map[string]any{"title": fmt.Sprintf("s%d", len(h.events)), "plannedAt": h.drawLaterTime("plannedAt")})
	case verb == 3:
		h.add(h.person("viewer"), "remindMe", map[string]any{"showId": one})
	case verb == 4:
		h.add(h.owner[one], "cancelShow", map[string]any{"showId": one})
	case verb <= 6:
		h.add(h.owner[one], "startShow", map[string]any{"showId": one})
	default:
		if !slices.ContainsFunc(h.events, func(e pastEvent) bool { return e.name == "startShow" && e.input["showId"] == one }) {
			return // a show that did not start would be closed by its time limit and not by an event, and its reminders would be sent then
		}
		h.add(h.owner[one], "endShow", map[string]any{"showId": one})
	}
}

func (h *history) view() {
	key := h.people[0] + rapid.SampledFrom([]string{"x", "y"}).Draw(h.t, "view")
	switch rapid.IntRange(0, 3).Draw(h.t, "verb") {
	case 0:
		h.add("", "removeViewItem", map[string]any{"code": "topic", "key": key, "item": rapid.SampledFrom([]string{"i", "j", "k"}).Draw(h.t, "item")})
	case 1:
		h.add("", "addViewItem", map[string]any{"code": "topic", "key": key, "item": rapid.SampledFrom([]string{"i", "j", "k"}).Draw(h.t, "item"), "at": h.clock.UTC().Format(time.RFC3339)})
	default:
		h.add(h.person("reader"), "touchView", map[string]any{"code": "topic", "key": key})
	}
}
