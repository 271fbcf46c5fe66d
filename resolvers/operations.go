package resolvers

import (
	"context"
	"reflect"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/announcements"
	"tidings/services/jobs"
	"tidings/services/messages"
)

// operations are what clients can do, by the names of the mutations. A mutation does one of them; ingest does those that its
// events name, see ingestEvents.
var operations = table(
	publishPost, editPost, deletePost, markHomeFeedSeen,
	follow, unfollow, mute, unmute, block, unblock, hideFrom, unhideFrom, setProfile,
	likePost, unlikePost,
	markNotificationsSeen, markNotificationsRead, markNotificationUnread, markAllRead, undoMarkAllRead,
	sendSiteMessage, editSiteMessage, markSiteMessagesRead, markSiteMessagesUnread,
	publishAnnouncement, editAnnouncement, withdrawAnnouncement, markAnnouncementsRead, raiseDot, clearDot, setSegments,
	touchView, addViewItem, removeViewItem,
	createConversation, joinConversation, quitConversation, addMembers, removeMembers,
	sendMessage, recallMessage, enterConversation, leaveConversation,
	markConversationRead, markConversationUnread, muteConversation, unmuteConversation, setGroupPolicy,
	scheduleShow, rescheduleShow, startShow, endShow, cancelShow, setReplay, remindMe, cancelReminder, markLiveBoardSeen,
	setDisplayPolicy,
)

// doer is who does an operation.
type doer int

const (
	forUser doer = iota // a user: the mutation's viewer, or the one whom an event names in its field as
	forHost             // the host application
)

// operation is one entry of operations. I is the input of the mutation.
type operation[I any] struct {
	name  string // the mutation's
	by    doer
	makes string // see jobs.Command
	// ofDevice says that the device of the user belongs to the input.
	ofDevice bool
	// command makes the command of an input that was read from a request. It may change the input to what others that ask for the
	// same come to, so that all are one request for an idempotency key. With an error the command is not looked at.
	command func(ctx context.Context, c *call, input *I) (*jobs.Command, error)
}

// call is one use of an operation.
type call struct {
	r      *Resolver
	actor  services.UserID // 0 for the host application
	as     string          // the global id of the actor
	device string          // "" for one without a name

	// What the command is about, as its input says: a global id, "" for none, and what that stands for.
	subject      string
	user         services.UserID
	conversation services.ConversationID
}

// entry is an operation with an input of any type.
type entry interface {
	describe() (name string, by doer, ofDevice bool, input reflect.Type)
	// prepare makes the command of an input, a pointer to what describe says, whose idempotency key is given besides it.
	prepare(ctx context.Context, c *call, input any, key *string) (*jobs.Command, error)
}

func table(entries ...entry) map[string]entry {
	named := make(map[string]entry, len(entries))
	for _, e := range entries {
		name, _, _, _ := e.describe()
		named[name] = e
	}
	return named
}

func (o *operation[I]) describe() (name string, by doer, ofDevice bool, input reflect.Type) {
	return o.name, o.by, o.ofDevice, reflect.TypeFor[I]()
}

// inputOfDevice is what tells requests apart that are told from different devices.
type inputOfDevice struct {
	Device string
	Input  any
}

func (o *operation[I]) prepare(ctx context.Context, c *call, input any, key *string) (*jobs.Command, error) {
	cmd, err := o.command(ctx, c, input.(*I))
	if err != nil {
		return nil, err
	}
	cmd.Name, cmd.Input, cmd.Makes = o.name, input, o.makes
	if o.ofDevice {
		cmd.Input = inputOfDevice{c.device, input}
	}
	if key == nil {
		return cmd, nil
	}
	cmd.Key = *key
	return cmd, jobs.CheckKey(cmd.Key)
}

// done is an operation that happened.
type done struct {
	call    *call
	viewer  *graph.Viewer // nil where the host application did it
	cmd     *jobs.Command
	id      string           // the global id of what it made, or else named; "" for neither
	changed bool             // false when the state that it asks for held already
	badges  *services.Badges // the viewer's after it; nil where they could not be read
}

// ifRead is what a payload has of what was read after the commit. What could not be read is null: the change stands, and its
// answer must not be an error.
func ifRead[T any](r *Resolver) func(value T, err error) *T {
	return func(value T, err error) *T {
		if err == nil {
			return &value
		}
		if services.CodeOf(err) != services.NotFound { // which somebody else may have taken away meanwhile
			r.Log.Warn("a field of the payload could not be read after the commit", "error", err)
		}
		return nil
	}
}

// viewerAfter is the viewer of a payload, with the badges that it has; nil without them.
func (d *done) viewerAfter() *graph.Viewer {
	if d.badges == nil {
		return nil
	}
	viewer := withBadges(d.viewer, d.badges)
	return &viewer
}

// withBadges is a viewer who has these badges, so that a payload or an event shows the same in both places.
func withBadges(viewer *graph.Viewer, badges *services.Badges) graph.Viewer {
	shown := *viewer
	shown.Now = badges
	return shown
}

// do does an operation as a mutation: for the viewer, or for the host application or an operator.
func (o *operation[I]) do(ctx context.Context, r *Resolver, input I) (*done, error) {
	c, d := &call{r: r}, &done{}
	var err error
	if o.by == forUser {
		if d.viewer, err = r.viewer(ctx); err != nil {
			return nil, err
		}
		c.actor, c.as, c.device = d.viewer.Number, services.GlobalID(services.UserType, d.viewer.Key), device(ctx)
	} else {
		if err = r.host(ctx); err != nil {
			return nil, err
		}
		ctx = byScope(ctx)
	}
	key := takeKey(&input)
	cmd, err := o.prepare(ctx, c, &input, key)
	if err != nil {
		return nil, err
	}
	d.call, d.cmd = c, cmd
	defer dataloader.From(ctx).Forget() // what the response has read before is of before the change
	if err := r.Fanout.Commit(ctx, cmd)[0]; err != nil {
		return nil, err
	}
	d.id, d.changed = idOf(c, cmd), cmd.Changed()
	if d.viewer == nil {
		return d, nil
	}
	read := r.Badge.Read
	if cmd.ViewsStale() {
		read = r.Badge.ReadFacts
	}
	if badges := ifRead[*services.Badges](r)(read(ctx, c.actor)); badges != nil {
		d.badges = *badges
	}
	return d, nil
}

// takeKey takes the idempotency key out of an input: it is no part of what is asked for.
func takeKey(input any) *string {
	field := reflect.ValueOf(input).Elem().FieldByName(idempotencyKey)
	key, _ := field.Interface().(*string)
	field.SetZero()
	return key
}

// idOf is the id that a command has made, or else its input names.
func idOf(c *call, cmd *jobs.Command) string {
	if ids := cmd.IDs(); len(ids) > 0 {
		return ids[0]
	}
	return c.subject
}

// The methods below read the global id of what a command is about.

func (c *call) userID(ctx context.Context, id string) (user services.UserID, err error) {
	c.subject = id
	c.user, err = c.r.number(ctx, "userId", id)
	return c.user, err
}

func (c *call) postID(id string) (services.PostID, error) {
	c.subject = id
	return services.ParsePostGlobalID("postId", id)
}

func (c *call) showID(id string) (services.PostID, error) {
	c.subject = id
	return services.ParseShowID("showId", id)
}

func (c *call) announcementID(id string) (services.PostID, error) {
	c.subject = id
	return announcements.ParseID("announcementId", id)
}

func (c *call) siteMessageID(id string) (messages.ID, error) {
	c.subject = id
	return messages.ParseID("siteMessageId", id)
}

func (c *call) conversationID(id string) (_ services.ConversationID, err error) {
	c.subject = id
	c.conversation, err = services.ParseConversationID("conversationId", id)
	return c.conversation, err
}

func (c *call) messageID(field, id string) (services.MessageID, error) {
	c.subject = id
	message, err := services.ParseMessageID(field, id)
	c.conversation = message.Conversation()
	return message, err
}
