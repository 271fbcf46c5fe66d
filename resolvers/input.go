package resolvers

import (
	"context"

	"github.com/99designs/gqlgen/graphql"

	"tidings/services"
	"tidings/services/people"
)

// clearableValue returns the value of a field of an edit. It is nil if the field is absent, which keeps the present value. For
// null, which clears the value, it is a pointer to the zero value. Commands take a pointer as "change it to this".
func clearableValue[T any](field graphql.Omittable[*T]) *T {
	value, given := field.ValueOK()
	if given && value == nil {
		return new(T)
	}
	return value
}

// nonNullValue returns the value of a field of an edit that cannot be cleared. It is nil if the field is absent. The error is
// INVALID for null. A title is such a field: without one an object could not be shown.
func nonNullValue[T any](name string, field graphql.Omittable[*T]) (*T, error) {
	value, given := field.ValueOK()
	if given && value == nil {
		return nil, services.Errorf(services.Invalid, "%s: it cannot be null; leave it out to keep the present value", name)
	}
	return value, nil
}

// creatingUsersKey is the key of the mark that withCreatingUsers puts into a context. A parameter in place of the mark would have to pass
// through many commands that do not use it.
type creatingUsersKey struct{}

// withCreatingUsers marks a context in which the host application names users: users that do not exist are then created.
func withCreatingUsers(ctx context.Context) context.Context {
	return context.WithValue(ctx, creatingUsersKey{}, true)
}

// withCreatingUsersIfHost marks a context as withCreatingUsers does, if the token has the scope of the host application: users who are
// named and do not exist are then created. With the scope of operators alone no user is created. A key that an operator mistyped must
// not become a user.
func withCreatingUsersIfHost(ctx context.Context) context.Context {
	if viewer, err := services.ViewerFrom(ctx); err == nil && viewer.Has(services.ScopeIngest) {
		return withCreatingUsers(ctx)
	}
	return ctx
}

// createsUsers reports whether the context is marked by withCreatingUsers.
func createsUsers(ctx context.Context) bool { return ctx.Value(creatingUsersKey{}) != nil }

// usersBeingErasedKey is the key of the users' keys that withUsersBeingErased puts into a context.
type usersBeingErasedKey struct{}

// withUsersBeingErased puts into the context the keys of users that a batch of events names and who are being erased. Only the
// events that name such a user are refused.
func withUsersBeingErased(ctx context.Context, keys []string) context.Context {
	if len(keys) == 0 {
		return ctx
	}
	refused := make(map[string]bool, len(keys))
	for _, key := range keys {
		refused[key] = true
	}
	return context.WithValue(ctx, usersBeingErasedKey{}, refused)
}

// resolveUserID returns the user of a global ID. If there is none, the error is NOT_FOUND. But in a context of withCreatingUsers, the
// user is created.
func (r *Resolver) resolveUserID(ctx context.Context, field, id string) (services.UserID, error) {
	ids, err := r.resolveUserIDs(ctx, field, []string{id})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// resolveUserIDs returns the users of up to 500 global IDs, in the order of the IDs, with one query. If there is no user for one of them,
// the error is NOT_FOUND. But in a context of withCreatingUsers, the user is created. field names the argument in errors. No input may
// have a longer list of users, and the bound keeps the number of the statement's parameters small.
func (r *Resolver) resolveUserIDs(ctx context.Context, field string, ids []string) ([]services.UserID, error) {
	const most = 500
	if len(ids) > most {
		return nil, services.Errorf(services.Invalid, "%s: up to %d are allowed, got %d", field, most, len(ids))
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		var err error
		if keys[i], err = services.ParseUserID(field, id); err != nil {
			return nil, err
		}
		// Only a batch of events has such keys in its context. A single mutation finds out when it creates the user.
		if refused, _ := ctx.Value(usersBeingErasedKey{}).(map[string]bool); refused[keys[i]] {
			return nil, services.WithArgument(field, people.BeingErasedError(keys[i]))
		}
	}
	find := r.Social.FindUsers
	if createsUsers(ctx) {
		find = r.Social.EnsureUsers
	}
	known, err := find(ctx, keys)
	if err != nil {
		return nil, err
	}
	// The users are in the order of the IDs. A user who is named twice is there twice.
	users := make([]services.UserID, len(keys))
	for i, key := range keys {
		var ok bool
		if users[i], ok = known[key]; !ok {
			return nil, services.NoUserError(field, key)
		}
	}
	return users, nil
}
