package main

import (
	"time"

	"tidings/services/live/livetest"
)

// dataSizes says how much data is made by the rows that have an installation of their own.
type dataSizes struct {
	manyUsers, fewUsers    int                  // users in a database with many, and in one with few, for publishing to all of them
	onlineUsers            int                  // how many users of each of these databases have a socket
	publicationsPerRound   int                  // announcements or dots in a round
	conversationsPerReader []int                // the numbers of conversations that readers have
	groupMembers           int                  // members of the group in the row group
	talkingMembers         int                  // members of this group who send messages
	likers, likedPosts     int                  // users who like, and posts of one author that they like
	multiNodeSockets       int                  // sockets at several nodes together
	followersOfOneAuthor   int                  // followers of an author whose posts are pushed to all of them
	deliveredPostsPerRound int                  // posts that this author publishes in a round
	importedPosts          int                  // posts in the file that is imported
	eventsPerBurst         int                  // events that are sent at once while people publish
	activeShows            int                  // shows in a node's memory
	showDaySize            livetest.ShowDaySize // the size of the day of shows
	sampledViewers         int                  // how many viewers of the day are read
	packageToBuild         string               // the package that is built from an empty cache
	librariesToBuild       []string             // the libraries that packageToBuild needs, built in the same way
	rowTurnLength          time.Duration        // a turn of the rows group, recipient, locks and mixed; 0: as in all other rows
}

var (
	// fullDataSizes is for a usual run.
	fullDataSizes = dataSizes{
		manyUsers: 1_000_000, fewUsers: 10, onlineUsers: 10, publicationsPerRound: 100, conversationsPerReader: []int{10, 200, 2000}, groupMembers: 500, talkingMembers: 100, likers: 20_000, likedPosts: 200, multiNodeSockets: 50_000,
		followersOfOneAuthor: 4000, deliveredPostsPerRound: 25, importedPosts: 300_000, eventsPerBurst: 10_000,
		activeShows: 100_000, showDaySize: livetest.ShowDaySize{Shows: 10_000, LiveShows: 300, Hosts: 2500, Viewers: 20_000, MaxFollowedHosts: 2000}, sampledViewers: 1000,
		packageToBuild: ".", librariesToBuild: unavoidablePackages,
	}
	// quickDataSizes is for a run with --quick.
	quickDataSizes = dataSizes{
		manyUsers: 20_000, fewUsers: 10, onlineUsers: 5, publicationsPerRound: 10, conversationsPerReader: []int{10, 40, 200}, groupMembers: 60, talkingMembers: 12, likers: 2000, likedPosts: 20, multiNodeSockets: 300,
		followersOfOneAuthor: 100, deliveredPostsPerRound: 3, importedPosts: 20_000, eventsPerBurst: 1000,
		activeShows: 4000, showDaySize: livetest.ShowDaySize{Shows: 1000, LiveShows: 30, Hosts: 100, Viewers: 200, MaxFollowedHosts: 90}, sampledViewers: 50,
		packageToBuild: "unicode/utf8", librariesToBuild: []string{"unicode"},
		rowTurnLength: 400 * time.Millisecond,
	}
)

// The numbers of the databases in the run's Redis: each row with an installation of its own has one. The baselines read database 0.
const (
	// Each constant is the number of the database of one row, or of one installation of a row. The row has the constant's name, or
	// the name in the comment.
	everySourceRedisDB = 1 + iota // row every
	manyUsersRedisDB              // row million, the server with many users
	fewUsersRedisDB               // row million, the server with few users: it must come right after manyUsersRedisDB
	conversationsRedisDB
	groupRedisDB
	hotRecipientRedisDB // row recipient
	locksRedisDB
	everyoneRedisDB
	publishRedisDB
	fanOutRedisDB
	hugeAuthorRedisDB // row huge
	rebuildRedisDB
	mixedLoadRedisDB        // row mixed
	eventBurstRedisDB       // row burst
	liveBoardRedisDB        // row board
	showsRedisDB            // row board, the node whose memory is measured
	liveDayRedisDB          // row liveday
	withoutWebhooksRedisDB  // row webhooks
	withWebhooksRedisDB     // row webhooks
	sqliteWritesRedisDB     // row writes
	postgresWritesRedisDB   // row writes
	serverStartRedisDB      // row start, the database with follows
	emptyServerStartRedisDB // row start, the empty database
	multiNodeRedisDB        // row crowd, for all of its nodes
	redisDBCount            // how many databases there are, with database 0
)

// rowTurnLength is how long a turn takes in the rows group, recipient, locks and mixed.
func (b *bench) rowTurnLength() time.Duration {
	if b.sizes.rowTurnLength > 0 {
		return b.sizes.rowTurnLength
	}
	return time.Duration(b.turnSeconds * float64(time.Second))
}
