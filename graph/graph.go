// Package graph is the contract: the GraphQL schema in *.graphqls, the Go that gqlgen and the command generate make of it, and what
// executes an operation: see exec.go and compiled.go.
package graph

import (
	"reflect"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/chat"
	"tidings/services/live"
	"tidings/services/notifications"
)

// The parser adds the directive @defer to every schema. If a client could use it, the executor would move parts of an answer to later
// responses. No transport here sends those, so fields that cannot be null would be null.
func init() { delete(parsedSchema.Directives, "defer") }

//go:generate go run ./generate

// Viewer is the user of the token; its fields are resolved when they are selected.
type Viewer struct {
	ID string
	// Clients never see the fields below, which are for resolvers.
	UserID    services.UserID
	Key       string
	BadgesNow *services.Badges // the badges that were read already; nil for none
}

// NewViewer makes the viewer of a user ID and a key.
func NewViewer(id services.UserID, key string) *Viewer {
	return &Viewer{ID: services.GlobalID(services.ViewerType, key), UserID: id, Key: key}
}

// IsNode says that a viewer can be fetched by its ID.
func (Viewer) IsNode() {}

// Conversation is a conversation as one of its members sees it; its lists are read when they are requested.
type Conversation struct {
	ID          string
	Kind        chat.Kind
	Title       *string
	MemberCount int
	Unread      services.Count // Unread and Mentions are counts before the viewer's display policy
	Mentions    services.Count
	Muted       bool   // by the viewer
	ReadToken   string // for a mark that covers only what was shown

	ViewerCanRemoveMembers bool

	// The resolvers of messages and members need State. Code that has read these parts of several conversations at once sets
	// PartsRead, so that the resolvers do not read them again one by one.
	State     chat.MemberState
	PartsRead bool // all parts that the operation shows were read
}

// IsNode says that a conversation can be fetched by its ID.
func (Conversation) IsNode() {}

// View is a view of the host application, as one viewer has it.
type View struct {
	ID   string
	Code string // the kind of the view
	Key  string // the view ID: the host application's own name of the view among those of its kind
	// Unread, UpTo and LastAccessAt depend on the viewer.
	Unread       services.Count // before the viewer's display policy
	UpTo         time.Time      // the viewer has seen the view up to this time
	LastAccessAt time.Time      // when the viewer last touched the view
}

// IsNode says that a View can be fetched by its ID.
func (View) IsNode() {}

// Post is a post as a viewer sees it. What users did with it, such as likes, is read when it is requested.
type Post struct {
	ID          string
	Kind        services.PostKind
	Author      User
	Body        string
	ParentID    *string // the ID of the post that it answers; nil for none
	PublishedAt time.Time
	EditedAt    *time.Time // nil if it was never edited

	// Resolvers of fields need the numbers behind the IDs: Number, AuthorID and ParentNumber. All posts of a list share Together,
	// which is not changed.
	Number       services.PostID
	AuthorID     services.UserID
	ParentNumber services.PostID // the post that it answers; 0 for none
	Together     []services.Post // the posts of the same list, so that one read serves all
	Read         *PostReads      // the reads of the page; nil except on a page that is written without resolvers
}

// PostReads is what was read for all posts of a page that is written without resolvers. A map is nil if no selected field needs it.
type PostReads struct {
	Viewer      services.UserID                         // who sees the page
	Engagements map[services.PostID]services.Engagement // likes and comments, by post
	Labels      map[services.Object]services.Label
}

// IsNode says that a post can be fetched by its ID.
func (Post) IsNode() {}

// Notification is a notification as its recipient sees it; Subject and Show are nil if there is none.
type Notification struct {
	ID         string
	UpTo       string // the position up to which the notification is shown here, for marks
	Category   services.Category
	Subject    *Post
	Show       *Show
	Actors     []User
	ActorCount int       // how many users acted; Actors has some of them
	At         time.Time // the time of the newest cause
	Seen       bool      // seen or read after the newest cause
	Read       bool      // opened or marked as read after the newest cause
	Older      bool      // unseen, but too old to count

	// These fields are nil except for the host application's categories. Title to Data are those of the newest cause.
	HostCategory *string
	Title        *string
	Body         *string
	URL          *string
	Data         *string
	GroupKey     *string // the key by which the host application groups notifications

	// FoundCauses has the causes. It is nil if no field asks for causes, and empty if there are none that the viewer may see.
	FoundCauses []NotificationCause // at most as many as the operation requests
}

// IsNode says that a notification can be fetched by its ID.
func (Notification) IsNode() {}

// IsNotificationCause says that a post can be a cause of a notification.
func (Post) IsNotificationCause() {}

// IsNotificationCause says that a show can be a cause of a notification.
func (Show) IsNotificationCause() {}

// Show is a show as a viewer sees it; a zero time is null. remindsMe is read only if it is selected.
type Show struct {
	ID          string
	Host        User
	Title       string
	CoverURL    *string
	Status      live.ShowStatus
	PlannedAt   time.Time
	StartedAt   time.Time
	EndedAt     time.Time
	CancelledAt time.Time
	ReplayURL   *string
	Late        bool // upcoming, although its planned start has passed

	Number   services.ShowID   // the number behind the ID
	Together []services.ShowID // the shows of the same list, so that one read serves all
	Read     *ShowReads        // the reads of the page; nil except on a page that is written without resolvers
}

// ShowReads is what was read for all shows of a page that is written without resolvers. A map is nil if no selected field needs it.
type ShowReads struct {
	Session live.Session // the session of the board
	Labels  map[services.Object]services.Label
	Reminds map[services.ShowID]bool // whether the viewer has a reminder of the show
}

// IsNode says that a show can be fetched by its ID.
func (Show) IsNode() {}

// LiveBoardEdge is a show at its position on a board. Node is the show as it is now; the other fields have the values that the
// session froze. A time that is zero is null.
type LiveBoardEdge struct {
	Cursor    string
	Status    live.ShowStatus
	PlannedAt time.Time
	StartedAt time.Time
	EndedAt   time.Time
	// The status and the times of the edge decide its position. They stay the same while the session lasts. The fields of
	// Node can change.
	Node Show

	Position live.ShowPosition // set only on a page that is written without resolvers: the cursor is made of it
}

// User is a user as a viewer sees them; the relation between the two is read when it is requested.
type User struct {
	ID        string
	Key       string
	Name      *string
	AvatarURL *string

	// UserID is the dense internal ID, which no response contains.
	UserID   services.UserID
	Together []services.UserID // the users that the same event of a subscription names, so that one read of relations serves all
	// Relations has the relations of the users of a page that is written without resolvers; nil if no field shows them.
	Relations map[services.UserID]services.Relation
}

// IsNode says that a user can be fetched by its ID.
func (User) IsNode() {}

// IsNotificationCause says that a user can be a cause of a notification.
func (User) IsNotificationCause() {}

// NotificationsChange is a first page of the viewer's notifications. The objects that they show are read when the event is rendered.
type NotificationsChange struct {
	Badges services.Badges
	Viewer Viewer

	// Shown, More, Next and Gen are the page as it was read for the event, without the objects that the notifications show.
	Shown []notifications.Notification
	More  bool                   // whether the list goes on
	Next  notifications.Position // the position of the last row that was read
	Gen   uint64                 // the generation of marks at the read, for the read token of the page
}

// ConversationsChange is a first page of the viewer's conversations. Their messages and members are read when the event is rendered.
type ConversationsChange struct {
	Badges services.Badges
	Viewer Viewer

	// Shown and More are the page as it was read for the event, without messages and members.
	Shown []chat.MemberState
	More  bool // whether the list goes on
}

// IDFieldPositions returns the positions of the fields of an input that hold IDs. input is the Go type of the input; its name is the
// same in the schema. The schema decides, because in Go an ID is a string like any other.
func IDFieldPositions(input reflect.Type) (positions []int) {
	definition := parsedSchema.Types[input.Name()]
	for i := range input.NumField() {
		name, _, _ := strings.Cut(input.Field(i).Tag.Get("json"), ",")
		if field := definition.Fields.ForName(name); field != nil && field.Type.Name() == "ID" {
			positions = append(positions, i)
		}
	}
	return positions
}
