package resolvers

import (
	"context"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/services"
)

// shownBadges are badges with the key of their user: the key is a part of their ID.
type shownBadges struct {
	*services.Badges
	userKey string // the key of the user whose badges they are
}

// badgesPart compiles the viewer's badges, or the badges of a subscription; nil if a field cannot be compiled. A subscription uses
// only the part's write, because its badges come from the hub.
func badgesPart(field *ast.Field) *hotPlanPart {
	write := appenders.Badges(field.SelectionSet)
	if write == nil {
		return nil
	}
	wanted := selectedFieldsBelow(field.SelectionSet, nil)
	named := len(wanted["Badges.id"])+len(wanted["Node.id"]) > 0
	return &hotPlanPart{
		joint:   jointBadges,
		jsonKey: graph.AppendKey(nil, field),
		write: func(to []byte, c *hotPartValue) []byte {
			if !named {
				return write(to, c.badges.Badges)
			}
			// All readers of the badges share them, so they are copied for the key.
			c.badgesWithKey = *c.badges.Badges
			c.badgesWithKey.Key = c.badges.userKey
			return write(to, &c.badgesWithKey)
		},
		read: func(ctx context.Context, r *Resolver, viewer *graph.Viewer, _ map[string]any, c *hotPartValue) (err error) {
			c.badges.userKey = viewer.Key
			c.badges.Badges, err = r.Badge.Read(ctx, viewer.UserID)
			return err
		},
	}
}
