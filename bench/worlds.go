package main

import (
	"time"

	"tidings/services/live/livetest"
)

// dataSizes are the sizes of the data of the rows that have their own site.
type dataSizes struct {
	users, few     int           // in the store, for publishing to all of them
	watching       int           // how many of these users are online
	publications   int           // announcements or dots in a round
	memberships    []int         // the numbers of conversations that readers have
	groupMembers   int           // members of the group
	talkers        int           // members of the group who talk
	likers, posts  int           // users who like, and posts of the hot recipient that they like
	crowdSockets   int           // sockets at several nodes together
	readersOfOne   int           // followers of an author whose posts are pushed to all of them
	deliveredPosts int           // posts that this author publishes in a round
	importedPosts  int           // posts in the file that is imported
	burstSize      int           // events that are sent at once while people publish
	activeShows    int           // shows in a node's memory
	day            livetest.Size // the size of the day of shows
	sampledViewers int           // how many viewers of the day are read
	program        string        // the package that is built from an empty cache
	libraries      []string      // the libraries that program needs, built in the same way
	turn           time.Duration // the length of a turn in the rows that compare the times of other users; 0: as in all other rows
}

var (
	// wholeDataSizes is for a usual run, and quickDataSizes for one with --quick.
	wholeDataSizes = dataSizes{
		users: 1_000_000, few: 10, watching: 10, publications: 100, memberships: []int{10, 200, 2000}, groupMembers: 500, talkers: 100, likers: 20_000, posts: 200, crowdSockets: 50_000,
		readersOfOne: 4000, deliveredPosts: 25, importedPosts: 300_000, burstSize: 10_000,
		activeShows: 100_000, day: livetest.Size{Shows: 10_000, Live: 300, Hosts: 2500, Viewers: 20_000, Most: 2000}, sampledViewers: 1000,
		program: ".", libraries: buildFloor,
	}
	quickDataSizes = dataSizes{
		users: 20_000, few: 10, watching: 5, publications: 10, memberships: []int{10, 40, 200}, groupMembers: 60, talkers: 12, likers: 2000, posts: 20, crowdSockets: 300,
		readersOfOne: 100, deliveredPosts: 3, importedPosts: 20_000, burstSize: 1000,
		activeShows: 4000, day: livetest.Size{Shows: 1000, Live: 30, Hosts: 100, Viewers: 200, Most: 90}, sampledViewers: 50,
		program: "unicode/utf8", libraries: []string{"unicode"},
		turn: 400 * time.Millisecond,
	}
)

// Each row with its own site has a database of the Redis; 0 is the database that the peers read.
const (
	// Each constant is the number of a row's database.
	everyDatabase = 1 + iota
	manyDatabase
	fewDatabase
	conversationsDatabase
	groupDatabase
	recipientDatabase
	locksDatabase
	everyoneDatabase
	publishDatabase
	fanOutDatabase
	hugeDatabase
	rebuildDatabase
	mixedDatabase
	burstDatabase
	boardDatabase
	showsDatabase
	liveDayDatabase
	plainDatabase
	webhooksDatabase
	sqliteDatabase
	postgresDatabase
	startDatabase
	emptyDatabase
	crowdDatabase
	redisDatabases // their number
)

// turnLength is how long a turn takes in the rows that compare the times of other users.
func (b *bench) turnLength() time.Duration {
	if b.sizes.turn > 0 {
		return b.sizes.turn
	}
	return time.Duration(b.seconds * float64(time.Second))
}
