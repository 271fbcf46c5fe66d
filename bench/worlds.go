package main

import (
	"time"

	"tidings/services/live/livetest"
)

// worlds are the sizes of the rows that have their own site.
type worlds struct {
	users, few    int           // in the store, for publishing to all of them
	watching      int           // how many of these users are online
	publications  int           // in a round
	memberships   []int         // conversations of a reader
	group         int           // members
	talkers       int           // members who talk
	likers, posts int           // users who like, and posts of the hot recipient that they like
	crowd         int           // sockets at several nodes
	readersOfOne  int           // of an author whose posts are pushed to all of them
	delivered     int           // posts to them in a round
	imported      int           // posts of a file
	burst         int           // the events of the burst beside which people publish
	activeShows   int           // in a node's memory
	day           livetest.Size // of shows
	sampled       int           // of its viewers
	program       string        // the packages that are built from an empty cache
	libraries     []string      // the libraries that program needs, built in the same way
	turn          time.Duration // of the rows that compare the times of other users; 0: as long as the turns of all other rows
}

var (
	wholeWorlds = worlds{
		users: 1_000_000, few: 10, watching: 10, publications: 100, memberships: []int{10, 200, 2000}, group: 500, talkers: 100, likers: 20_000, posts: 200, crowd: 50_000,
		readersOfOne: 4000, delivered: 25, imported: 300_000, burst: 10_000,
		activeShows: 100_000, day: livetest.Size{Shows: 10_000, Live: 300, Hosts: 2500, Viewers: 20_000, Most: 2000}, sampled: 1000,
		program: ".", libraries: buildFloor,
	}
	quickWorlds = worlds{
		users: 20_000, few: 10, watching: 5, publications: 10, memberships: []int{10, 40, 200}, group: 60, talkers: 12, likers: 2000, posts: 20, crowd: 300,
		readersOfOne: 100, delivered: 3, imported: 20_000, burst: 1000,
		activeShows: 4000, day: livetest.Size{Shows: 1000, Live: 30, Hosts: 100, Viewers: 200, Most: 90}, sampled: 50,
		program: "unicode/utf8", libraries: []string{"unicode"},
		turn: 400 * time.Millisecond,
	}
)

// Each row with its own site has a database of the Redis; 0 is the database that the peers read.
const (
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

// turnLength is how long a turn takes.
func (b *bench) turnLength() time.Duration {
	if b.worlds.turn > 0 {
		return b.worlds.turn
	}
	return time.Duration(b.seconds * float64(time.Second))
}
