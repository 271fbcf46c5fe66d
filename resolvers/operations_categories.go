package resolvers

import (
	"context"
	"fmt"

	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/notifications"
)

// notify sends users a notification in a category of the application. Recipients are keys here and not IDs, because the service
// creates, in its transaction, the users who do not exist. A recipient who turned the category off gets the notification in
// their list, and no count.
var notify = &operation[graph.NotifyInput]{
	operationSpec: operationSpec{name: "notify", actorKind: actorHost, createdType: services.HostNotificationType},
	command: func(ctx context.Context, c *operationCall, in *graph.NotifyInput) (*jobs.Command, error) {
		sent := notifications.HostNotification{
			Category: services.Category(in.Category), RecipientKeys: make([]string, len(in.To)), Title: in.Title, Body: in.Body, GroupKey: orEmpty(in.GroupKey),
		}
		// The number of recipients is checked before the IDs are parsed, because parsing many IDs is expensive.
		if err := notifications.CheckRecipients(len(in.To)); err != nil {
			return nil, err
		}
		for i, id := range in.To {
			var err error
			if sent.RecipientKeys[i], err = services.ParseUserID("to", id); err != nil {
				return nil, err
			}
		}
		// An empty key would put all notifications into one group; an absent key does not. CheckText makes the error, which names
		// the bounds.
		if in.GroupKey != nil && *in.GroupKey == "" {
			return nil, services.CheckText("groupKey", "", 1, notifications.MaxGroupKey)
		}
		// Called by the application, resolveUserID creates an actor who does not exist: see withCreatingUsersIfHost.
		if in.ActorID != nil {
			var err error
			if sent.Actor, err = c.r.resolveUserID(ctx, "actorId", *in.ActorID); err != nil {
				return nil, err
			}
		}
		// An object of the application, such as an order, cannot be the subject: the application shows it by the url and the
		// data of the label.
		if in.SubjectID != nil {
			var err error
			if sent.About, err = c.r.readSubject(ctx, *in.SubjectID); err != nil {
				return nil, err
			}
		}
		if !createsUsers(ctx) { // with the scope of operators alone no user is created
			if err := c.r.checkUsersExist(ctx, "to", sent.RecipientKeys); err != nil {
				return nil, err
			}
		}
		return c.r.Notifications.Notify(sent)
	},
}

// withdrawNotification takes back, from all of its recipients, a notification that notify sent. Recipients who have read it lose it
// too: it is removed and not marked.
var withdrawNotification = &operation[graph.WithdrawNotificationInput]{
	operationSpec: operationSpec{name: "withdrawNotification", actorKind: actorHost, createdType: services.HostNotificationType},
	command: func(_ context.Context, c *operationCall, in *graph.WithdrawNotificationInput) (*jobs.Command, error) {
		c.subjectID = in.HostNotificationID
		id, err := services.ParseHostNotificationID("hostNotificationId", in.HostNotificationID)
		return c.r.Notifications.Withdraw(id), err
	},
}

// readSubject reads the post or show that a notification is about. The error is NOT_FOUND if there is none, or it is deleted.
// Whether the recipients may see it is checked when they read the notification. The subject is checked before the commit and not in
// it, because an object that is deleted a moment later leaves a notification without a subject, as any deletion does.
func (r *Resolver) readSubject(ctx context.Context, id string) (services.Object, error) {
	// The type decides where to look, and only two types can be shown.
	kind, _, err := services.SplitGlobalID(id)
	if err == nil && kind != services.PostType && kind != services.ShowType {
		err = services.Errorf(services.Invalid, "%s is neither a post nor a show", services.Quote(id))
	}
	if err != nil {
		return services.Object{}, services.WithArgument("subjectId", err)
	}
	object, err := services.ParseObject("subjectId", id)
	if err != nil {
		return object, err
	}
	found := false
	if kind == services.PostType {
		// Not read by a loader: ingest checks many subjects, and shows none of them.
		id := services.PostID(object.Number)
		posts, _, err := r.Readers.Posts.ReadWithAuthors(ctx, []services.PostID{id}, nil)
		if err != nil {
			return object, err
		}
		post, ok := posts[id]
		found = ok && !post.Deleted
	} else {
		id := services.ShowID(object.Number)
		shows, err := r.Readers.Shows.Shows(ctx, []services.ShowID{id})
		if err != nil {
			return object, err
		}
		_, found = shows[id]
	}
	if !found {
		return object, services.Errorf(services.NotFound, "subjectId: there is no %s", object.GlobalID())
	}
	return object, nil
}

// checkUsersExist returns NOT_FOUND if one of the keys belongs to no user. The error names the first unknown key in the order of the
// input.
func (r *Resolver) checkUsersExist(ctx context.Context, field string, keys []string) error {
	known, err := r.Social.FindUsers(ctx, keys)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if _, ok := known[key]; !ok {
			return services.NoUserError(field, key)
		}
	}
	return nil
}

// sentNotification reads the notification that notify sent, for its payload. If it was deleted with its category, it is
// NOT_FOUND.
func (r *Resolver) sentNotification(ctx context.Context, id string) (notifications.SentNotification, error) {
	notificationID, err := services.ParseHostNotificationID("hostNotificationId", id)
	if err != nil {
		return notifications.SentNotification{}, err
	}
	return r.Notifications.SentNotification(ctx, notificationID)
}

// definitionOf is the category that an input defines. A dot has no number, so it cannot be in the total. An expiry of 0 days is
// refused, because the service takes 0 for NeverExpires.
func definitionOf(in graph.DefineCategoryInput) (category services.HostCategory, err error) {
	category = services.HostCategory{Name: services.Category(in.Name), ExpiryDays: services.NeverExpires, Grouped: in.Grouped}
	if in.ExpiryDays != nil {
		if category.ExpiryDays = *in.ExpiryDays; category.ExpiryDays == services.NeverExpires { // 0 days are not never
			return category, services.Errorf(services.Invalid, "expiryDays: 1 to %d are allowed, or null for never, got 0", services.MaxExpiryDays)
		}
	}
	switch {
	case in.Style == graph.BadgeStyleDot && in.InTotal != nil && *in.InTotal:
		return category, services.Errorf(services.Invalid, "inTotal: a dot is no number: it is never part of the total")
	case in.Style == graph.BadgeStyleDot:
		category.DefaultMode = services.CategoryDot
	// The category has a number of its own, beside the total.
	case in.InTotal != nil && !*in.InTotal:
		category.DefaultMode = services.CategoryOutsideTotal
	}
	return category, nil
}

// defineCategory defines a category or changes it. It is not in the table operations, because it needs the scope admin, which
// no event has. Every node learns the definition by the changelog. Until then its badges follow the former definition.
func (r *Resolver) defineCategory(ctx context.Context, input graph.DefineCategoryInput) (*graph.DefineCategoryPayload, error) {
	details := fmt.Sprintf("grouped %t, style %s", input.Grouped, input.Style)
	return runAsAdmin(ctx, r, "defineCategory", input.Name, details, func(ctx context.Context) (*graph.DefineCategoryPayload, error) {
		// A wrong input is an outcome of the act, and is recorded as one.
		category, err := definitionOf(input)
		if err != nil {
			return nil, err
		}
		// An equal definition changes nothing, so a script may define all categories at each deployment.
		cmd, err := r.Notifications.DefineCategory(category)
		if err == nil {
			err = r.commitWithIdempotencyKey(ctx, cmd, &input)
		}
		if err != nil {
			return nil, err
		}
		payload := &graph.DefineCategoryPayload{Created: cmd.Created(), Changed: cmd.Changed()}
		if list := nilOnError[[]graph.HostCategory](r)(r.hostCategories(ctx)); list != nil {
			for _, one := range *list {
				if one.Name == input.Name {
					payload.Category = &one
				}
			}
		}
		return payload, nil
	})
}

// removeCategory removes a category from badges and lists at once. Its notifications are deleted by jobs. A repetition without an
// idempotency key is NOT_FOUND, because no category has the name any more.
func (r *Resolver) removeCategory(ctx context.Context, input graph.RemoveCategoryInput) (*graph.RemoveCategoryPayload, error) {
	return runAsAdmin(ctx, r, "removeCategory", input.Name, "", func(ctx context.Context) (*graph.RemoveCategoryPayload, error) {
		cmd, err := r.Notifications.RemoveCategory(services.Category(input.Name))
		if err == nil {
			err = r.commitWithIdempotencyKey(ctx, cmd, &input)
		}
		if err != nil {
			return nil, err
		}
		return &graph.RemoveCategoryPayload{Name: input.Name}, nil
	})
}

// commitWithIdempotencyKey commits the command of an operator's input. If the input has an idempotency key, a second request with the
// key gets the answer of the first, and a request with another input is CONFLICT. Without a key the input is not compared with anything.
// For entries of operations, makeCommand and mutate do the same.
func (r *Resolver) commitWithIdempotencyKey(ctx context.Context, cmd *jobs.Command, input any) error {
	if key := takeIdempotencyKey(input); key != nil {
		cmd.IdempotencyKey, cmd.Input = *key, input
		if err := jobs.CheckIdempotencyKey(cmd.IdempotencyKey); err != nil {
			return err
		}
	}
	return r.Jobs.Commit(ctx, cmd)[0]
}

// hostCategories lists the categories of the host application, from SQL: the payload of a definition needs the new one, which
// this node's memory may lack for a moment.
func (r *Resolver) hostCategories(ctx context.Context) ([]graph.HostCategory, error) {
	list, err := r.Notifications.Definitions(ctx)
	shown := make([]graph.HostCategory, len(list))
	for i, d := range list {
		shown[i] = graph.HostCategory{
			Name: string(d.Name), Grouped: d.Grouped, Style: graph.BadgeStyleNumber, InTotal: d.DefaultMode.InTotal(), CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
		}
		// NeverExpires is null in the API.
		if d.ExpiryDays != services.NeverExpires {
			shown[i].ExpiryDays = new(d.ExpiryDays)
		}
		if d.DefaultMode == services.CategoryDot {
			shown[i].Style = graph.BadgeStyleDot
		}
	}
	return shown, err
}
