package model

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// eventIndex is the index of an earlier event of the history. In an input it stands for the ID of the object that the event made.
type eventIndex int

// pastEvent is one event of a history, as the mutation ingest takes it.
type pastEvent struct {
	actor  string         // "" for the host application
	name   string         // of the mutation, such as likePost
	input  map[string]any // of the mutation; an eventIndex in it stands for an ID
	at     time.Time      // when it happened
	device string         // on which a conversation was open; "" for none
}

// history is a random sequence of events, and draws the events. It knows which objects, such as posts, the events make, but not whether
// the server allows the events.
type history struct {
	t                    *rapid.T
	people               []string  // keys of users
	conversationID       string    // stands in the inputs for the ID of the conversation of all people, which each node replaces by its own
	presentTime          time.Time // the time of the present event
	events               []pastEvent
	objectEventsByAction map[string][]eventIndex // for each name of an event: the events that made an object, such as a post
	actorOf              map[eventIndex]string   // who acted in each event
	jobDueTimes          []time.Time             // times at which jobs are due between the events
}

func (h *history) drawPerson(label string) string {
	return rapid.SampledFrom(h.people).Draw(h.t, label)
}

// drawObject draws the index of an event with a name, such as publishPost, that made an object; false if there is none.
func (h *history) drawObject(action string) (eventIndex, bool) {
	if len(h.objectEventsByAction[action]) == 0 {
		return 0, false
	}
	return rapid.SampledFrom(h.objectEventsByAction[action]).Draw(h.t, action), true
}

// addEvent appends an event at the present time.
func (h *history) addEvent(as, name string, input map[string]any) {
	index := eventIndex(len(h.events))
	if slices.Contains([]string{"publishPost", "sendMessage", "publishAnnouncement", "scheduleShow"}, name) {
		h.objectEventsByAction[name] = append(h.objectEventsByAction[name], index)
	}
	h.actorOf[index] = as
	h.events = append(h.events, pastEvent{actor: as, name: name, input: input, at: h.presentTime})
}

// drawLaterTime draws a time after the present event, at which no event happens, for use in an input. It notes in jobDueTimes that a job
// is due then.
func (h *history) drawLaterTime(label string) string {
	hours := rapid.IntRange(0, 40).Draw(h.t, label)
	at := h.presentTime.Add(time.Duration(hours)*time.Hour + 30*time.Second)
	h.jobDueTimes = append(h.jobDueTimes, at)
	return at.UTC().Format(time.RFC3339)
}

// userID returns the global ID of the user with a key.
func userID(key string) string { return "user:" + key }

// addRandomEvent moves the time forward and adds a random event, or a few that belong together.
func (h *history) addRandomEvent() {
	h.presentTime = h.presentTime.Add(time.Duration(rapid.SampledFrom([]int{1, 3, 40, 300}).Draw(h.t, "minutes")) * time.Minute)
	draw := rapid.SampledFrom([]func(){
		h.addPost, h.addPost, h.addLike, h.addLike, h.addFollow, h.addFollow, h.addRestriction, h.addMarkFeedSeenEvent, h.addMarkFeedSeenEvent, h.addMarkNotificationsEvent, h.addMarkNotificationsEvent,
		h.addSiteMessageEvent, h.addAnnouncementEvent, h.addDotEvent, h.addMessageEvent, h.addMessageEvent, h.addConversationEvent, h.addConversationVisit, h.addConversationVisit, h.addShowEvent, h.addShowEvent, h.addViewEvent, h.addPostEditOrDelete,
	}).Draw(h.t, "kind")
	draw()
}

// addPost adds a post, which may mention a person, and may answer another post.
func (h *history) addPost() {
	as, input := h.drawPerson("author"), map[string]any{"body": fmt.Sprintf("b%d", len(h.events))}
	if rapid.Bool().Draw(h.t, "mentions") {
		input["mentions"] = []string{userID(h.drawPerson("mentioned"))}
	}
	if parent, some := h.drawObject("publishPost"); some && rapid.Bool().Draw(h.t, "answers") {
		input["parentId"] = parent
	}
	h.addEvent(as, "publishPost", input)
}

// addLike adds a like of a post, or its end.
func (h *history) addLike() {
	if post, some := h.drawObject("publishPost"); some {
		h.addEvent(h.drawPerson("liker"), rapid.SampledFrom([]string{"likePost", "likePost", "unlikePost"}).Draw(h.t, "verb"), map[string]any{"postId": post})
	}
}

// addPostEditOrDelete edits or deletes a post.
func (h *history) addPostEditOrDelete() {
	post, some := h.drawObject("publishPost")
	if !some {
		return
	}
	if rapid.Bool().Draw(h.t, "delete") {
		h.addEvent(h.actorOf[post], "deletePost", map[string]any{"postId": post})
		return
	}
	h.addEvent(h.actorOf[post], "editPost", map[string]any{"postId": post, "body": fmt.Sprintf("e%d", len(h.events)), "mentions": []string{userID(h.drawPerson("mentioned"))}})
}

// addFollow adds a follow, or its end.
func (h *history) addFollow() {
	h.addEvent(h.drawPerson("follower"), rapid.SampledFrom([]string{"follow", "follow", "follow", "unfollow"}).Draw(h.t, "verb"), map[string]any{"userId": userID(h.drawPerson("followee"))})
}

// addRestriction adds a mute, a block or a hide, or its end.
func (h *history) addRestriction() {
	verb := rapid.SampledFrom([]string{"mute", "mute", "unmute", "block", "unblock", "hideFrom", "unhideFrom"}).Draw(h.t, "verb")
	input := map[string]any{"userId": userID(h.drawPerson("other"))}
	if verb == "mute" && rapid.Bool().Draw(h.t, "timed") {
		input["until"] = h.drawLaterTime("until")
	}
	h.addEvent(h.drawPerson("owner"), verb, input)
}

func (h *history) addMarkFeedSeenEvent() {
	h.addEvent(h.drawPerson("reader"), "markHomeFeedSeen", map[string]any{})
}

// addMarkNotificationsEvent adds an event that marks notifications seen or read: those of some categories, or all. If it is markAllRead,
// undoMarkAllRead may follow.
func (h *history) addMarkNotificationsEvent() {
	as := h.drawPerson("reader")
	switch rapid.IntRange(0, 3).Draw(h.t, "mark") {
	case 0:
		h.addEvent(as, "markNotificationsSeen", map[string]any{"categories": []string{"LIKE", "FOLLOW"}})
	case 1:
		h.addEvent(as, "markNotificationsSeen", map[string]any{})
	case 2:
		h.addEvent(as, "markNotificationsRead", map[string]any{"categories": []string{"LIKE", "MENTION"}})
	default:
		h.addEvent(as, "markAllRead", map[string]any{})
		if rapid.Bool().Draw(h.t, "undone") {
			h.addSecondsLater(rapid.SampledFrom([]int{10, 29, 40}).Draw(h.t, "seconds"), func() { h.addEvent(as, "undoMarkAllRead", map[string]any{}) })
		}
	}
}

// isUndoMarkAllRead reports whether an event is undoMarkAllRead. Its answers are not compared: a live undo gets CONFLICT if markAllRead
// marked nothing. An undo that is reported late waits for events that may still be reported, and then changes nothing either.
func isUndoMarkAllRead(event map[string]any) bool {
	_, is := event["do"].(map[string]any)["undoMarkAllRead"]
	return is
}

// addSecondsLater calls add, whose events happen some seconds after the present event, within its minute.
func (h *history) addSecondsLater(seconds int, add func()) {
	minute := h.presentTime
	h.presentTime = h.presentTime.Add(time.Duration(seconds) * time.Second)
	add()
	h.presentTime = minute
}

// addConversationVisit adds an event by which a person opens the conversation on a device, and messages that come while it is open. An
// event closes the conversation, or the visit times out five seconds into the next minute.
func (h *history) addConversationVisit() {
	as, device := h.drawPerson("visitor"), rapid.SampledFrom([]string{"phone", "laptop"}).Draw(h.t, "device")
	add := func(verb string) {
		h.addEvent(as, verb, map[string]any{"conversationId": h.conversationID})
		h.events[len(h.events)-1].device = device
	}
	h.addSecondsLater(5, func() { add("enterConversation") })
	for _, seconds := range []int{12, 25} {
		if rapid.Bool().Draw(h.t, "message") {
			h.addSecondsLater(seconds, func() { h.addMessage(h.drawPerson("author")) })
		}
	}
	if rapid.Bool().Draw(h.t, "leaves") {
		h.addSecondsLater(35, func() { add("leaveConversation") })
		if rapid.Bool().Draw(h.t, "message afterwards") {
			h.addSecondsLater(45, func() { h.addMessage(h.drawPerson("author")) })
		}
	}
}

// addSiteMessageEvent adds an event of a site message: it is sent, or all are marked read.
func (h *history) addSiteMessageEvent() {
	if rapid.Bool().Draw(h.t, "send") {
		h.addEvent("", "sendSiteMessage", map[string]any{"title": fmt.Sprintf("l%d", len(h.events)), "to": []string{userID(h.drawPerson("to")), userID(h.drawPerson("and"))}})
		return
	}
	h.addEvent(h.drawPerson("reader"), "markSiteMessagesRead", map[string]any{"all": true})
}

// addAnnouncementEvent adds an event of announcements: one is published or withdrawn, or a reader marks them read.
func (h *history) addAnnouncementEvent() {
	switch rapid.IntRange(0, 3).Draw(h.t, "announce") {
	case 0:
		h.addEvent(h.drawPerson("reader"), "markAnnouncementsRead", map[string]any{})
	case 1:
		if one, some := h.drawObject("publishAnnouncement"); some {
			h.addEvent("", "withdrawAnnouncement", map[string]any{"announcementId": one})
		}
	default:
		input := map[string]any{"title": fmt.Sprintf("a%d", len(h.events))}
		if rapid.Bool().Draw(h.t, "scheduled") {
			input["startsAt"] = h.drawLaterTime("startsAt")
		} else if rapid.Bool().Draw(h.t, "ends") {
			input["endsAt"] = h.drawLaterTime("endsAt")
		}
		h.addEvent("", "publishAnnouncement", input)
	}
}

// addDotEvent adds an event of a dot: the application raises it, or a reader clears it.
func (h *history) addDotEvent() {
	dot := rapid.SampledFrom(dotNames).Draw(h.t, "dot")
	if rapid.Bool().Draw(h.t, "raise") {
		h.addEvent("", "raiseDot", map[string]any{"name": dot})
		return
	}
	h.addEvent(h.drawPerson("reader"), "clearDot", map[string]any{"name": dot})
}

// addMessageEvent adds an event of the conversation: a message is sent or recalled.
func (h *history) addMessageEvent() {
	if one, some := h.drawObject("sendMessage"); some && rapid.IntRange(0, 4).Draw(h.t, "recall") == 0 {
		h.addEvent(h.actorOf[one], "recallMessage", map[string]any{"messageId": one})
		return
	}
	h.addMessage(h.drawPerson("author"))
}

// addMessage adds a message of the person as, which mentions a person, to the conversation.
func (h *history) addMessage(as string) {
	h.addEvent(as, "sendMessage", map[string]any{"conversationId": h.conversationID, "body": fmt.Sprintf("m%d", len(h.events)), "mentionIds": []string{userID(h.drawPerson("mentioned"))}})
}

// addConversationEvent lets a person mark the conversation read, mute or unmute it, join it or quit it.
func (h *history) addConversationEvent() {
	verb := rapid.SampledFrom([]string{"markConversationRead", "markConversationRead", "muteConversation", "unmuteConversation", "joinConversation", "quitConversation"}).Draw(h.t, "verb")
	h.addEvent(h.drawPerson("member"), verb, map[string]any{"conversationId": h.conversationID})
}

// addShowEvent adds an event of a show: it is scheduled, started, ended or cancelled, or a viewer asks for its reminder. Or a viewer
// marks the live board seen.
func (h *history) addShowEvent() {
	one, some := h.drawObject("scheduleShow")
	switch verb := rapid.IntRange(0, 7).Draw(h.t, "show"); {
	case verb == 0:
		h.addEvent(h.drawPerson("viewer"), "markLiveBoardSeen", map[string]any{})
	case !some || verb <= 2:
		h.addEvent(h.drawPerson("host"), "scheduleShow", map[string]any{"title": fmt.Sprintf("s%d", len(h.events)), "plannedAt": h.drawLaterTime("plannedAt")})
	case verb == 3:
		h.addEvent(h.drawPerson("viewer"), "remindMe", map[string]any{"showId": one})
	case verb == 4:
		h.addEvent(h.actorOf[one], "cancelShow", map[string]any{"showId": one})
	case verb <= 6:
		h.addEvent(h.actorOf[one], "startShow", map[string]any{"showId": one})
	default:
		if !slices.ContainsFunc(h.events, func(e pastEvent) bool { return e.name == "startShow" && e.input["showId"] == one }) {
			return // a show that did not start would be closed by its time limit and not by an event, and its reminders would be sent then
		}
		h.addEvent(h.actorOf[one], "endShow", map[string]any{"showId": one})
	}
}

// addViewEvent adds an event of a general view: an item is added or removed, or a reader touches the view.
func (h *history) addViewEvent() {
	key := h.people[0] + rapid.SampledFrom([]string{"x", "y"}).Draw(h.t, "view")
	switch rapid.IntRange(0, 3).Draw(h.t, "verb") {
	case 0:
		h.addEvent("", "removeViewItem", map[string]any{"code": "topic", "key": key, "item": rapid.SampledFrom([]string{"i", "j", "k"}).Draw(h.t, "item")})
	case 1:
		h.addEvent("", "addViewItem", map[string]any{"code": "topic", "key": key, "item": rapid.SampledFrom([]string{"i", "j", "k"}).Draw(h.t, "item"), "at": h.presentTime.UTC().Format(time.RFC3339)})
	default:
		h.addEvent(h.drawPerson("reader"), "touchView", map[string]any{"code": "topic", "key": key})
	}
}
