package resolvers

import (
	"context"
	"strconv"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/services"
)

// shownBadges are badges with the key of their user: the key is a part of their ID.
type shownBadges struct {
	*services.Badges
	key string // of their user
}

// badgesPart compiles the viewer's badges, or the badges of a subscription; nil if a field cannot be compiled. A subscription uses only
// the part's write, because its badges come from the hub. badgesObject compiles both, so that answers and events look the same to a
// client.
func badgesPart(field *ast.Field) *part {
	write := badgesObject.compile(field.SelectionSet)
	if write == nil {
		return nil
	}
	return &part{
		joint: jointBadges,
		key:   appendKey(nil, field),
		write: func(to []byte, c *content) []byte { return write(to, &c.badges) },
		read: func(ctx context.Context, r *Resolver, viewer *graph.Viewer, _ map[string]any, c *content) (err error) {
			c.badges.key = viewer.Key
			c.badges.Badges, err = r.Badge.Read(ctx, viewer.Number)
			return err
		},
	}
}

// The types of the badges, each with all its fields. The names of the fields are the schema's; a test compares every answer with
// that of the executor, so that a field which is written differently is found.
var (
	countObject = objectCompiler[services.Count]{"BadgeCount", map[string]fieldCompiler[services.Count]{
		// The value of an UNKNOWN count is null, as the schema says: 0 would mean that there is nothing.
		"value": leaf(func(to []byte, c *services.Count) []byte {
			if c.Precision == services.Unknown {
				return append(to, "null"...)
			}
			return strconv.AppendInt(to, int64(c.Value), 10)
		}),
		"display":   leaf(func(to []byte, c *services.Count) []byte { return graph.AppendText(to, c.Display) }),
		"inTotal":   leaf(func(to []byte, c *services.Count) []byte { return strconv.AppendBool(to, c.InTotal) }),
		"precision": leaf(func(to []byte, c *services.Count) []byte { return graph.AppendText(to, string(c.Precision)) }),
		"asOf":      leaf(func(to []byte, c *services.Count) []byte { return graph.AppendTime(to, c.AsOf) }),
	}}

	// olderObject has the counts that have left the badge because of their age. They have no precision of their own, because one read
	// returns them together with the counts of the badge.
	olderObject = objectCompiler[services.OlderCounts]{"OlderNotifications", map[string]fieldCompiler[services.OlderCounts]{
		"like":     leaf(func(to []byte, o *services.OlderCounts) []byte { return strconv.AppendInt(to, int64(o.Like), 10) }),
		"comment":  leaf(func(to []byte, o *services.OlderCounts) []byte { return strconv.AppendInt(to, int64(o.Comment), 10) }),
		"mention":  leaf(func(to []byte, o *services.OlderCounts) []byte { return strconv.AppendInt(to, int64(o.Mention), 10) }),
		"follow":   leaf(func(to []byte, o *services.OlderCounts) []byte { return strconv.AppendInt(to, int64(o.Follow), 10) }),
		"reminder": leaf(func(to []byte, o *services.OlderCounts) []byte { return strconv.AppendInt(to, int64(o.Reminder), 10) }),
	}}

	// categoryObject is one category in the list of all categories. The list includes the categories of the host application, whose
	// names are not in the schema.
	categoryObject = objectCompiler[services.CategoryCount]{"CategoryCount", map[string]fieldCompiler[services.CategoryCount]{
		"category": leaf(func(to []byte, c *services.CategoryCount) []byte { return graph.AppendText(to, string(c.Category)) }),
		"name":     leaf(func(to []byte, c *services.CategoryCount) []byte { return graph.AppendText(to, c.Name) }),
		"count":    objectField(func(c *services.CategoryCount) *services.Count { return &c.Count }, countObject),
		"older":    leaf(func(to []byte, c *services.CategoryCount) []byte { return strconv.AppendInt(to, int64(c.Older), 10) }),
	}}

	// newest is the position up to which a client marks the list of notifications as seen. It is null without a notification.
	notificationsObject = objectCompiler[services.NotificationCounts]{"NotificationBadges", map[string]fieldCompiler[services.NotificationCounts]{
		"newest": leaf(func(to []byte, n *services.NotificationCounts) []byte {
			if n.Newest == 0 {
				return append(to, "null"...)
			}
			return graph.AppendText(to, services.UpToText(n.Newest))
		}),
		"total":      objectField(func(n *services.NotificationCounts) *services.Count { return &n.Total }, countObject),
		"categories": listField((*services.NotificationCounts).Categories, categoryObject),
		"like":       objectField(func(n *services.NotificationCounts) *services.Count { return &n.Like }, countObject),
		"comment":    objectField(func(n *services.NotificationCounts) *services.Count { return &n.Comment }, countObject),
		"mention":    objectField(func(n *services.NotificationCounts) *services.Count { return &n.Mention }, countObject),
		"follow":     objectField(func(n *services.NotificationCounts) *services.Count { return &n.Follow }, countObject),
		"reminder":   objectField(func(n *services.NotificationCounts) *services.Count { return &n.Reminder }, countObject),
		"older":      objectField(func(n *services.NotificationCounts) *services.OlderCounts { return &n.Older }, olderObject),
	}}

	// The types of site messages are not in the schema, because the application chooses them. So they are a list and not fields.
	messageTypeObject = objectCompiler[services.MessageTypeCount]{"SiteMessageTypeBadge", map[string]fieldCompiler[services.MessageTypeCount]{
		"type":  leaf(func(to []byte, m *services.MessageTypeCount) []byte { return graph.AppendText(to, m.Type) }),
		"count": objectField(func(m *services.MessageTypeCount) *services.Count { return &m.Count }, countObject),
	}}

	messagesObject = objectCompiler[services.MessageCounts]{"SiteMessageBadges", map[string]fieldCompiler[services.MessageCounts]{
		"total": objectField(func(m *services.MessageCounts) *services.Count { return &m.Total }, countObject),
		"types": listField(func(m *services.MessageCounts) []services.MessageTypeCount { return m.Types }, messageTypeObject),
	}}

	conversationsObject = objectCompiler[services.ConversationCounts]{"ConversationBadges", map[string]fieldCompiler[services.ConversationCounts]{
		"total":    objectField(func(c *services.ConversationCounts) *services.Count { return &c.Total }, countObject),
		"mentions": objectField(func(c *services.ConversationCounts) *services.Count { return &c.Mentions }, countObject),
	}}

	dotObject = objectCompiler[services.Dot]{"Dot", map[string]fieldCompiler[services.Dot]{
		"name": leaf(func(to []byte, d *services.Dot) []byte { return graph.AppendText(to, d.Name) }),
		"lit":  leaf(func(to []byte, d *services.Dot) []byte { return strconv.AppendBool(to, d.Lit) }),
	}}

	// The sources with several counts have fields here. withCountFields adds the sources with a single count.
	badgesObject = objectCompiler[shownBadges]{"Badges", withCountFields(map[string]fieldCompiler[shownBadges]{
		"id":            leaf(func(to []byte, b *shownBadges) []byte { return appendID(to, services.BadgesType, b.key) }),
		"version":       leaf(func(to []byte, b *shownBadges) []byte { return graph.AppendText(to, b.Version) }),
		"total":         objectField(func(b *shownBadges) *services.Count { return &b.Total }, countObject),
		"notifications": objectField(func(b *shownBadges) *services.NotificationCounts { return &b.Notifications }, notificationsObject),
		"siteMessages":  objectField(func(b *shownBadges) *services.MessageCounts { return &b.SiteMessages }, messagesObject),
		"conversations": objectField(func(b *shownBadges) *services.ConversationCounts { return &b.Conversations }, conversationsObject),
		"dots":          listField(func(b *shownBadges) []services.Dot { return b.Dots }, dotObject),
		"quiet":         leaf(func(to []byte, b *shownBadges) []byte { return strconv.AppendBool(to, b.Quiet) }),
	})}
)

// withCountFields adds the fields of the sources with a single count, so that a new such source needs no line here. It runs
// while the package is initialised, before the object is compiled for the first time.
func withCountFields(fields map[string]fieldCompiler[shownBadges]) map[string]fieldCompiler[shownBadges] {
	for _, field := range services.CountFields {
		fields[field.Name] = objectField(func(b *shownBadges) *services.Count { return field.Of(b.Badges) }, countObject)
	}
	return fields
}
