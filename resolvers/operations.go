package resolvers

import (
	"context"
	"reflect"
	"time"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/acts"
	"tidings/services/announcements"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/messages"
	"tidings/services/refs"
)

// operations are the operations of clients, by the names of the mutations. A mutation runs one of them; ingest runs the
// operations that its events name: see ingestActions. Each operation turns an input into a command of a service. This file has
// their common steps: the actor, refs, labels, idempotency keys, the commit, the acts of operators, the badges of the payload. A
// new mutation for users or the host application must be added here. A test compares the table with the schema, and requires a
// reason for each mutation that is not in it.
var operations = newOperationTable(
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
	setDisplayPolicy, setCategoryPreference, setFollowMode,
	notify, withdrawNotification,
)

// actorKind says whether a user or the host application acts. Idempotency keys are kept by actor, so it also decides which actor a
// key belongs to.
type actorKind int

const (
	actorUser actorKind = iota // a user: the viewer of the mutation, or the user in the event's field as
	actorHost                  // the host application
)

// operation is one entry of operations. I is the input of the mutation. An operation is shared by all calls and does not change
// once newOperationTable has made it. The type parameter lets command use its input without a cast; operationEntry hides the
// parameter. The methods only convert between any and *I: the code that they call is compiled once and not for each input.
type operation[I any] struct {
	operationSpec
	// command makes the command of an input. It may normalise the input, so that equivalent inputs are one request for an
	// idempotency key. If it returns an error, its command is ignored. command only reads, and writes nothing. The state may
	// change before the commit, so the commit checks the conditions that must hold.
	command func(ctx context.Context, c *operationCall, input *I) (*jobs.Command, error)
}

// operationSpec describes an operation, apart from its command.
type operationSpec struct {
	name        string    // of the mutation
	actorKind   actorKind // whether a user or the host application acts
	createdType string    // the type of the first ID of its command, such as services.PostType; "" for none: see jobs.Command
	// idempotencyPerDevice says that requests of different devices differ under an idempotency key: see idempotencyInput.
	idempotencyPerDevice bool
	// canNameUnjoinedRooms reports that the input can name a ROOM in which the user is no member, because any user can join one.
	canNameUnjoinedRooms bool
	// newOperationTable fills these in: the type of the input, and the fields of the input that name something.
	inputType reflect.Type
	fields    fieldIndexes // those that hold IDs, a ref or a label
}

// operationCall is one use of an operation: the actor, the time, and the objects that the input names. mutate sets the actor,
// ingestCommand also the time, and the command sets the objects. A call belongs to one request and is not shared, so it has no
// lock.
type operationCall struct {
	r       *Resolver
	actor   services.UserID // the user who acts; 0 for the host application
	actorID string          // the global id of the actor
	device  string          // "" for a device without a name

	// happenedAt is the time that the event names; nil: none, and it happens now. If the time is past, happenedAtID is an ID of that
	// time. If it is not past, arrivedAtID is an ID of the time at which the event arrived. An ID that is not set is 0.
	happenedAt                *time.Time
	happenedAtID, arrivedAtID services.SortableID

	// The subject of the command: its global ID, as the input names it, "" for none. subjectUser or subjectConversation is its
	// parsed ID, if it has the type.
	subjectID           string
	subjectUser         services.UserID         // 0: the subject is no user
	subjectConversation services.ConversationID // 0: the subject is no conversation, and no message in one

	// refHolders are the objects of refs that the host application names, if they were looked up for many calls together; otherwise
	// nil.
	refHolders map[services.Ref]refs.RefHolder
}

// operationEntry is an operation with an input of any type, so that operations of all types stand in one table. operation is its only
// implementation.
type operationEntry interface {
	// setInputType sets the parts of the spec that follow from the type of the input.
	setInputType()
	// describe returns the spec of the operation.
	describe() *operationSpec
	// commandOf calls command. input is a pointer to an input of the operation's own type.
	commandOf(ctx context.Context, c *operationCall, input any) (*jobs.Command, error)
}

// newOperationTable makes the table, and prepares each entry. It runs while the package is initialised: an input that
// findFieldIndexes cannot read prevents the start of the program, and fails no request.
func newOperationTable(entries ...operationEntry) map[string]operationEntry {
	named := make(map[string]operationEntry, len(entries))
	for _, e := range entries {
		e.setInputType()
		named[e.describe().name] = e
	}
	return named
}

// setInputType sets inputType and fields. It writes to the shared entry, and is called only before requests are served.
func (o *operation[I]) setInputType() {
	o.inputType = reflect.TypeFor[I]()
	o.fields = findFieldIndexes(o.inputType)
}

func (o *operation[I]) describe() *operationSpec { return &o.operationSpec }

func (o *operation[I]) commandOf(ctx context.Context, c *operationCall, input any) (*jobs.Command, error) {
	return o.command(ctx, c, input.(*I))
}

// runMutation runs the operation as a mutation: see mutate.
func (o *operation[I]) runMutation(ctx context.Context, r *Resolver, input I) (*committedOperation, error) {
	return r.mutate(ctx, o, &input) // the input is this call's own copy, which makeCommand may normalise
}

// inputWithTime is an input with the time of its event, so that under one idempotency key events of different times differ.
type inputWithTime struct {
	At    time.Time
	Input any
}

// inputWithDevice is an input with the device, so that under one idempotency key requests of different devices differ.
type inputWithDevice struct {
	Device string
	Input  any
}

// makeCommand makes the command of an input, which is a pointer; its idempotency key is given separately. It resolves refs before
// the command reads the input, so that commands know only IDs. The device and the time become part of the input that is
// compared under the key. The key is checked last, because the error of a wrong input is more useful. Mutations and events both
// come here, so steps that both need are in this function or below it. A refusal that is remembered under a key becomes a
// command too, whose commit refuses.
func (c *operationCall) makeCommand(ctx context.Context, o operationEntry, input any, key *string) (*jobs.Command, error) {
	op := o.describe()
	fields, copied := reflect.ValueOf(input).Elem(), reflect.New(op.inputType)
	copied.Elem().Set(fields) // a shallow copy is enough: code that replaces a list or a pointer of the input makes a new one
	sent := copied.Interface()
	byRef, err := c.resolveRefs(ctx, op.fields, fields, op.canNameUnjoinedRooms)
	if err != nil {
		input, byRef = sent, false // resolveRefs may have replaced some refs: a repetition equals only the input as sent
	}
	var cmd *jobs.Command
	if err == nil {
		cmd, err = o.commandOf(ctx, c, input)
	}
	switch {
	case err == nil:
		// addLabel refuses only because of the token or the input, and never because of the present state. So it would refuse a
		// repetition too, and the key need not remember it.
		if err := c.addLabel(ctx, op, cmd, fields); err != nil {
			return nil, err
		}
	// An object that was not found may be created later. A repetition under the same key must not succeed then: much may have
	// happened since.
	case key != nil && jobs.IsRememberedError(err) && jobs.CheckIdempotencyKey(*key) == nil:
		cmd = jobs.RefusalCommand(c.actor, err)
	default:
		return nil, err
	}
	// From here on the command is complete but for its key. Without a time happenedAtID is 0, and the commit takes the present.
	cmd.Name, cmd.Input, cmd.CreatedType, cmd.Subject = op.name, c.idempotencyInput(op, input), op.createdType, c.subjectID
	cmd.HappenedAt, cmd.ArrivedAt = c.happenedAtID, c.arrivedAtID
	if byRef {
		cmd.SentInput = c.idempotencyInput(op, sent)
	}
	if key == nil {
		return cmd, nil
	}
	cmd.IdempotencyKey = *key
	return cmd, jobs.CheckIdempotencyKey(cmd.IdempotencyKey)
}

// idempotencyInput is an input as it is compared under a key: with the time of its event, and with the device if the operation has
// idempotencyPerDevice. Requests of other operations mean the same from every device, and so must be equal under a key.
func (c *operationCall) idempotencyInput(op *operationSpec, input any) any {
	if op.idempotencyPerDevice {
		input = inputWithDevice{c.device, input}
	}
	if c.happenedAt != nil {
		input = inputWithTime{*c.happenedAt, input}
	}
	return input
}

// committedOperation is an operation that was committed.
type committedOperation struct {
	call     *operationCall   // who acted, and what the input named
	viewer   *graph.Viewer    // nil if the host application acted
	cmd      *jobs.Command    // as it was committed
	objectID string           // the global ID of the created object, or else of the object that the input named; "" for neither
	changed  bool             // false if the state was already as requested
	created  bool             // of a create: false if the object existed before
	badges   *services.Badges // of the viewer, after the change; nil if they could not be read, or are not selected
}

// nilOnError returns a function that turns the results of a read after the commit into a pointer, nil if the read failed. The
// change is committed, so its answer must not be an error: a client that saw one would send the mutation again.
func nilOnError[T any](r *Resolver) func(value T, err error) *T {
	return func(value T, err error) *T {
		if err == nil {
			return &value
		}
		if services.CodeOf(err) != services.NotFound { // another user may have deleted it since
			r.Log.Warn("a field of the payload could not be read after the commit", "error", err)
		}
		return nil
	}
}

// readIfSelected is nilOnError for a read that only these fields of the payload need: without them it reads nothing.
func readIfSelected[T any](ctx context.Context, r *Resolver, read func() (T, error), fields ...string) *T {
	if !payloadSelects(ctx, fields...) {
		return nil
	}
	return nilOnError[T](r)(read())
}

// viewerAfter is the viewer of a payload, with the payload's badges; nil without them.
func (d *committedOperation) viewerAfter() *graph.Viewer {
	if d.badges == nil {
		return nil
	}
	viewer := withBadges(d.viewer, d.badges)
	return &viewer
}

// withBadges is a viewer with these badges, so that a payload or an event has the same badges in the viewer and beside it. Two
// reads could give two versions, and a client would keep one of them by chance.
func withBadges(viewer *graph.Viewer, badges *services.Badges) graph.Viewer {
	shown := *viewer
	shown.BadgesNow = badges
	return shown
}

// mutate runs an operation with an input, which is a pointer, as a mutation: for the viewer, or for the host application or an
// operator. The order is: the actor, the command, the commit, and then the reads of the payload, which see the change. An error
// means that nothing was committed, or that the outcome is unknown after a time-out. Under an idempotency key a client can repeat
// the request in both cases.
func (r *Resolver) mutate(ctx context.Context, o operationEntry, input any) (*committedOperation, error) {
	op, c, d := o.describe(), &operationCall{r: r}, &committedOperation{}
	var err error
	if op.actorKind == actorUser {
		if d.viewer, err = r.viewer(ctx); err != nil {
			return nil, err
		}
		// The device is part of the actor: some operations concern one device alone.
		c.actor, c.actorID, c.device = d.viewer.UserID, services.GlobalID(services.UserType, d.viewer.Key), deviceName(ctx)
	} else {
		if err = r.requireHostOrAdmin(ctx); err != nil {
			return nil, err
		}
		// The application may name users who do not exist yet, also in a mutation.
		ctx = withCreatingUsersIfHost(ctx)
	}
	key := takeIdempotencyKey(input)
	cmd, err := c.makeCommand(ctx, o, input, key)
	if err != nil {
		return nil, err
	}
	d.call, d.cmd = c, cmd
	defer dataloader.From(ctx).ForgetAll() // earlier reads of the response are out of date now
	commit := func(ctx context.Context) error { return r.Jobs.Commit(ctx, cmd)[0] }
	// An operator's mutation is an act, the application's is not.
	if op.actorKind == actorHost && isOperator(ctx) {
		err = r.Acts.Do(ctx, acts.Act{Actor: tokenSubject(ctx), Action: op.name, Target: c.subjectID, MadeID: func() string { return objectID(cmd) }}, commit)
	} else {
		err = commit(ctx)
	}
	if err != nil {
		return nil, err
	}
	d.objectID, d.changed, d.created = objectID(cmd), cmd.Changed(), cmd.Created()
	// The host application gets no badges: it is not a viewer.
	if d.viewer == nil {
		return d, nil
	}
	// A change is a visit of the viewer, even if the client shows no badges.
	if !payloadSelects(ctx, "badges", "viewer", "dot") {
		if err := r.Badge.Visit(ctx, c.actor); err != nil {
			r.Log.Warn("a visit could not be recorded; the viewer's next read records it", "error", err)
		}
		return d, nil
	}
	// If Redis has not applied the change in time, the badges are counted in SQL, which has the change.
	read := r.Badge.Read
	if cmd.ProjectionsStale() {
		read = r.Badge.ReadFacts
	}
	if badges := nilOnError[*services.Badges](r)(read(ctx, c.actor)); badges != nil {
		d.badges = *badges
	}
	return d, nil
}

// takeIdempotencyKey removes the idempotency key from an input and returns it: the key is not part of the request's content. Every
// input has the field. It uses reflection, because gqlgen makes the inputs from the schema: they share the field and no interface.
func takeIdempotencyKey(input any) *string {
	field := reflect.ValueOf(input).Elem().FieldByName(idempotencyKeyField)
	key, _ := field.Interface().(*string)
	field.SetZero()
	return key
}

// objectID is the global ID of the object that a command created, or else of the object that its input named; "" for neither. A
// command that makes no object may keep something else in its IDs for its payload. Under a remembered key both IDs come from the
// first request, so a repetition names the same object.
func objectID(cmd *jobs.Command) string {
	if ids := cmd.IDs(); len(ids) > 0 && cmd.CreatedType != "" {
		return ids[0]
	}
	return cmd.Subject
}

// Each of the methods below parses the global ID of a command's subject, and notes the subject for the payload, the label and
// the act.

// userID finds the user with an ID. For the application it creates a user who does not exist.
func (c *operationCall) userID(ctx context.Context, id string) (user services.UserID, err error) {
	c.subjectID = id
	c.subjectUser, err = c.r.resolveUserID(ctx, "userId", id)
	return c.subjectUser, err
}

// postID parses the ID of a post.
func (c *operationCall) postID(id string) (services.PostID, error) {
	c.subjectID = id
	return services.ParsePostGlobalID("postId", id)
}

// showID parses the ID of a show.
func (c *operationCall) showID(id string) (services.ShowID, error) {
	c.subjectID = id
	return live.ParseShowID("showId", id)
}

// announcementID parses the ID of an announcement.
func (c *operationCall) announcementID(id string) (services.AnnouncementID, error) {
	c.subjectID = id
	return announcements.ParseID("announcementId", id)
}

// siteMessageID parses the ID of a site message.
func (c *operationCall) siteMessageID(id string) (messages.ID, error) {
	c.subjectID = id
	return messages.ParseID("siteMessageId", id)
}

// conversationID parses the ID of a conversation.
func (c *operationCall) conversationID(id string) (_ services.ConversationID, err error) {
	c.subjectID = id
	c.subjectConversation, err = services.ParseConversationID("conversationId", id)
	return c.subjectConversation, err
}

// messageID parses the ID of a message, which names its conversation too. field is the argument in the error.
func (c *operationCall) messageID(field, id string) (services.MessageID, error) {
	c.subjectID = id
	message, err := services.ParseMessageID(field, id)
	c.subjectConversation = message.Conversation()
	return message, err
}
