package resolvers

import "tidings/services/devices"

// CostWeights are the costs of fields that read more than their parents have read. One unit is about a microsecond of the server's
// time: see transport.Config. A weight counts once for each time that the field is selected, and for each item of the lists around
// it. Fields of users and posts are cheap here although they are read from SQL, because one statement reads them for a whole page.
// A weight is for the read of the field itself; the fields below it have costs of their own. A read of Redis or a node cache costs
// about 20, one statement of SQL 30 to 50, and several statements 200 or more, so that nobody repeats them under aliases. An
// operation above --query-cost (30,000 by default) is refused. The cost of a query is charged to the budget READS, and so is a
// large payload of a mutation. Tests check that each weight names a field, and that each list with a size has a weight.
var CostWeights = map[string]int{
	"Query.nodes": 5,  // for each node
	"Query.users": 20, // for each user
	// Introspection walks the whole schema for one short line of text. Tools ask for it once; the budget READS bounds a client that
	// repeats it.
	"Query.__schema": 1000,
	"Query.__type":   100,
	// Fields of the viewer. A field with the weight 20 is read from Redis or a node cache, a field with the weight 50 from SQL.
	"Viewer.badges":        20,
	"Viewer.homeFeed":      20,
	"Viewer.liveBoard":     20,
	"Viewer.notifications": 50,
	"Viewer.siteMessages":  50,
	"Viewer.announcements": 20,
	"Viewer.conversations": 50,
	"Viewer.views":         50,
	// For operators and the host application.
	"Admin.changes":            50,
	"Admin.webhooks":           50,
	"Admin.devices":            50,
	"Admin.acts":               50,
	"Admin.export":             2000, // a statement for each kind of lines
	"ExportLine.text":          5,
	"Admin.webhookDeadLetters": 50,
	// badgeExplained and awayDigest read every source in SQL. They are for a person who asks why, not for a client that polls.
	"Viewer.badgeExplained": 200, // for each part
	"BadgeItem.node":        15,
	"Viewer.awayDigest":     2000, // several statements for each source, and each period is read anew
	// Lists of users and of browsers, one statement each.
	"Viewer.mutes":        30,
	"Viewer.devices":      30,
	"Preferences.follows": 30,
	"Viewer.blocks":       30,
	"Viewer.hides":        30,
	// The relation between the viewer and a user: one statement for all users of a page, whichever of these fields are
	// selected. The lists of users are one statement each.
	"User.viewerFollows":    5,
	"User.followsViewer":    5,
	"User.viewerMutes":      5,
	"User.viewerFollowMode": 5,
	"User.viewerBlocks":     5,
	"User.viewerHides":      5,
	"User.followers":        30,
	"User.followees":        30,
	"User.posts":            30,
	"User.shows":            30,
	// Lists and values of the items of a list: one statement for all items, with rows for each.
	"Conversation.messages":    30,
	"Conversation.members":     30,
	"Conversation.lastMessage": 10,
	"Post.viewerHasLiked":      3,
	"Post.likeCount":           3,
	"Post.commentCount":        3,
	"Post.parent":              15,
	"Post.comments":            30,
	"Post.likes":               30,
	// Labels: one statement for each type of object in the response, so each text costs little.
	"Post.ref":               2,
	"Post.url":               2,
	"Post.data":              2,
	"Show.ref":               2,
	"Show.url":               2,
	"Show.data":              2,
	"Conversation.ref":       2,
	"Conversation.url":       2,
	"Conversation.data":      2,
	"Message.ref":            2,
	"Message.url":            2,
	"Message.data":           2,
	"SiteMessage.ref":        2,
	"SiteMessage.url":        2,
	"SiteMessage.data":       2,
	"SiteMessageReport.ref":  2,
	"SiteMessageReport.url":  2,
	"SiteMessageReport.data": 2,
	"Announcement.ref":       2,
	"Announcement.url":       2,
	"Announcement.data":      2,
	"Notification.causes":    5,
	// The weight of a subscription is charged when it opens. Its events are charged to a budget of their own: see Limits.ChargeEvent.
	"Subscription.homeFeedChanged":      50,
	"Subscription.liveBoardChanged":     50,
	"Subscription.conversationChanged":  50,
	"Subscription.notificationsChanged": 50,
	"Subscription.conversationsChanged": 50,
}

// MaxPageSizes has the largest page sizes of the fields whose largest page is not 100 items. The cost of a field is computed for at
// most that many items, so its resolver must refuse a larger page: the client would not pay for the rest.
var MaxPageSizes = map[string]int{"Admin.export": maxExportLines}

// ListLengths has the greatest lengths of lists of objects whose length no argument gives, or a smaller number where a comment says
// so. If something with a page of its own is selected below such a list, that page is read for each item, so the list costs as if
// it were full. Otherwise its objects are read together, and it counts as 10 items at most. In the payload of a mutation with ids,
// the list counts one item for each ID; without ids it counts as any other list. A test finds the lists that are missing here.
var ListLengths = map[string]int{
	"Admin.hostCategories":                       100,
	"Admin.webhooks":                             50,
	"AwayDigest.authors":                         3,
	"AwayDigest.parts":                           100,
	"BadgeChange.sources":                        10,  // it has one for each category and type too, but few users have so many
	"BadgeExplanation.items":                     100, // it can have source.MaxExplainedItems, but hardly anybody has so many
	"Badges.dots":                                100,
	"DisplayPolicy.sources":                      10,
	"Erasure.removed":                            100,
	"HomeFeedChange.authors":                     3,
	"IngestPayload.results":                      500,
	"LiveBoardChange.cancelled":                  100,
	"LiveBoardChange.ended":                      100,
	"LiveBoardChange.rescheduled":                100,
	"LiveBoardChange.scheduled":                  100,
	"LiveBoardChange.wentLive":                   100,
	"MarkAllReadPayload.notifications":           100,
	"MarkAnnouncementsReadPayload.announcements": 100,
	"MarkNotificationsReadPayload.notifications": 100,
	"MarkNotificationsSeenPayload.notifications": 100,
	"MarkSiteMessagesReadPayload.siteMessages":   100,
	"MarkSiteMessagesUnreadPayload.siteMessages": 100,
	"Message.mentions":                           50,
	"Notification.actors":                        8,
	"NotificationBadges.categories":              100,
	"Preferences.categories":                     100,
	"SiteMessageBadges.types":                    100,
	"UndoMarkAllReadPayload.notifications":       100,
	"UserBadges.unread":                          5, // it has 7, one for each source, but nothing below them has pages
	"Viewer.badgeExplained":                      5, // it has one for each count above 0, but few of these have items with pages below
	"Viewer.devices":                             devices.MaxDevices,
}
