package resolvers

// Weights are the costs of fields that read more than their parents have read. One unit is about a microsecond of the server's
// time: see transport.Config.
var Weights = map[string]int{
	"Query.nodes":                       5, // each
	"Query.__schema":                    1000,
	"Query.__type":                      100,
	"Viewer.badges":                     20,
	"Viewer.homeFeed":                   20,
	"Viewer.liveBoard":                  20,
	"Viewer.notifications":              50,
	"Viewer.siteMessages":               50,
	"Viewer.announcements":              20,
	"Viewer.conversations":              50,
	"Viewer.views":                      50,
	"Viewer.badgeExplained":             200, // each part
	"Viewer.awayDigest":                 500,
	"User.viewerFollows":                5,
	"User.followsViewer":                5,
	"User.viewerMutes":                  5,
	"User.viewerBlocks":                 5,
	"User.viewerHides":                  5,
	"User.followers":                    30,
	"User.followees":                    30,
	"User.posts":                        30,
	"User.shows":                        30,
	"Conversation.messages":             30,
	"Conversation.members":              30,
	"Conversation.lastMessage":          10,
	"Post.viewerHasLiked":               3,
	"Post.likeCount":                    3,
	"Post.commentCount":                 3,
	"Post.parent":                       15,
	"Post.comments":                     30,
	"Post.likes":                        30,
	"Subscription.homeFeedChanged":      50,
	"Subscription.liveBoardChanged":     50,
	"Subscription.conversationChanged":  50,
	"Subscription.notificationsChanged": 50,
	"Subscription.conversationsChanged": 50,
}
