package resolvers

import (
	"context"
	"maps"
	"slices"

	"github.com/99designs/gqlgen/graphql"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
)

// maxUserKeys bounds the keys of one field, because each user costs a read of badges.
const maxUserKeys = 100

// users returns users with their badges, in the order of the keys; nil for a key that no user has. All users that the fields of an
// operation ask for are read together. The read does not count as a visit, so it makes no user active. The host application uses it
// for notifications that it sends itself, or to check a count.
func (r *Resolver) users(ctx context.Context, keys []string) ([]*graph.UserBadges, error) {
	if _, err := r.bearerWithScope(ctx, services.ScopeIngest); err != nil {
		return nil, err
	}
	if err := checkUserKeys(keys); err != nil {
		return nil, err
	}
	found, err := dataloader.ReadShared(ctx, usersKey{}, func(ctx context.Context) (map[string]*graph.UserBadges, error) {
		return r.readUsers(ctx, allUserKeys(ctx))
	})
	if err != nil {
		return nil, err
	}
	return services.Map(keys, func(key string) *graph.UserBadges { return found[key] }), nil
}

// checkUserKeys checks the argument keys of one field. It has keys and not IDs, because the host application knows its users by their
// keys.
func checkUserKeys(keys []string) error {
	if len(keys) == 0 || len(keys) > maxUserKeys {
		return services.Errorf(services.Invalid, "keys: 1 to %d are allowed, got %d", maxUserKeys, len(keys))
	}
	for _, key := range keys {
		if err := services.CheckUserKey(key); err != nil {
			return services.WithArgument("keys", err)
		}
	}
	return nil
}

// allUserKeys returns the keys that the fields of an operation ask for. It leaves out the keys of a field that is refused: such a
// field reports its own error, and the other fields must not fail because of it.
func allUserKeys(ctx context.Context) []string {
	all := map[string]bool{}
	for _, field := range selectedFieldsOf(ctx)["Query.users"] {
		var keys []string
		// If the argument is no list, the field itself fails. Here it counts as an empty list.
		list, _ := field.ArgumentMap(graphql.GetOperationContext(ctx).Variables)["keys"].([]any)
		for _, one := range list {
			if key, err := graphql.UnmarshalString(one); err == nil {
				keys = append(keys, key)
			}
		}
		if checkUserKeys(keys) != nil {
			continue
		}
		for _, key := range keys {
			all[key] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

// readUsers reads users by their keys, with their badges. If the badges of one user cannot be read, all fail: otherwise the host
// application would take the user for one that does not exist. Unlike ingest, it creates no user for an unknown key.
func (r *Resolver) readUsers(ctx context.Context, keys []string) (map[string]*graph.UserBadges, error) {
	known, err := r.Social.FindUsers(ctx, keys)
	if err != nil {
		return nil, err
	}
	// The order of the IDs is arbitrary, and badges has the same order.
	ids := slices.Collect(maps.Values(known))
	people, err := dataloader.From(ctx).Users(ctx, ids)
	if err != nil {
		return nil, err
	}
	// This takes one round trip for all users whose documents exist. The badges of the others are counted in SQL, for several users at
	// once.
	badges, errs := r.Badge.ReadForHost(ctx, ids)
	users := make(map[string]*graph.UserBadges, len(ids))
	for i, id := range ids {
		// Only the end of the context gives an error here: badges that are not in Redis are counted in SQL.
		if errs[i] != nil {
			return nil, errs[i]
		}
		// theirs is a copy, because the badges that were read are shared.
		theirs := *badges[i]
		theirs.Key = people[id].Key
		// unread is in the order of services.Sources, which is the order of the schema.
		unread := make([]graph.SourceCount, 0, len(services.Sources))
		for source, count := range r.Badge.CountsBySource(&theirs) {
			unread = append(unread, graph.SourceCount{Source: source, Count: *count})
		}
		users[theirs.Key] = &graph.UserBadges{User: graphUser(people[id]), Badges: theirs, Unread: unread}
	}
	return users, nil
}
