package demo

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// act is one action of a person. Its pause is random around 1, so that the people do not act like a clock. The pause comes
// from the script too, so that the same seed always gives the same rhythm.
type act struct {
	relativePause float64 // the pause before it; 1 is the mean
	event         event
}

// The world in numbers.
const (
	otherPeopleCount = 300 // people besides those in cast
	viewerPostCount  = 3   // of the viewer, before all others
	pastPostCount    = 160 // posts from before the viewer followed anybody
	unreadPostCount  = 7   // posts from after these follows, which the viewer has not seen
	maxUpcomingShows = 8   // upcoming shows at once
	maxLiveShows     = 3   // live shows at once
	recentPostCount  = 40  // the newest posts, which are liked and answered

	oneInFollowsViewer = 100 // one in this many of the follows goes to the viewer
)

// script is everything that happens, as far as the seed decides it. It knows no IDs and no time. Its lists hold everything that the
// script made: an event that the server refused or Run dropped stays in them, and send omits the events that depend on it. Only one
// goroutine uses it. It names posts, shows and conversations by numbers, which count each kind from 0 (objectName).
type script struct {
	random       *rand.Rand
	people       []person // the viewer first
	postCount    int      // how many posts
	viewerPosts  []int    // numbers of the viewer's posts
	showCount    int      // how many shows were made
	plannedShows []int    // numbers of shows that have not started
	liveShows    []int    // numbers of live shows, the oldest start first

	// Each kind of text is shuffled by itself: in a common list, posts, comments and titles would mix.
	posts, mentions, comments, messages, titles shuffledTexts
}

// newScript makes the script of a seed. The world depends on the order of the calls of random: an additional call makes another
// world.
func newScript(seed uint64) *script {
	s := &script{random: rand.New(rand.NewPCG(seed, 0x71d1965))}
	s.people = makePeople(s.random)
	deal := func(texts []string) shuffledTexts { return shuffledTexts{random: s.random, texts: texts} }
	s.posts, s.mentions, s.comments, s.messages, s.titles = deal(postTexts), deal(mentionTexts), deal(commentTexts), deal(messageTexts), deal(showTitles)
	return s
}

// pastEvents returns the events before the visitor arrives, in batches of one request each, because later events need the IDs of
// earlier ones. The batches are in the order of time: a follow before a post makes another feed than a follow after it.
func (s *script) pastEvents() [][]event {
	var steps [][]event
	step := func(events []event, from, to time.Duration) {
		spreadTimes(events, from, to)
		for batch := range slices.Chunk(events, maxEventsPerRequest) {
			steps = append(steps, batch)
		}
	}
	step(s.profilesAndFollows(), 5*day, 5*day) // at one moment: notifications of follows are grouped by time
	// The viewer's own posts come first, so that their numbers are known.
	var posts, shows []event
	for range viewerPostCount {
		s.viewerPosts = append(s.viewerPosts, s.postCount)
		posts = append(posts, s.post(0))
	}
	// These posts come before the viewer follows anybody, so that the feed has posts that count as seen.
	for range pastPostCount {
		posts = append(posts, s.post(s.randomPerson(0)))
	}
	for range maxUpcomingShows + maxLiveShows {
		shows = append(shows, s.scheduleShow())
	}
	// The posts are sent from the oldest to the newest, as an application reports events.
	step(posts, 3*day, 3*time.Hour)
	step(shows, 3*time.Hour, 3*time.Hour)
	var follows []event
	for _, followee := range s.people[0].follows {
		follows = append(follows, follow(s.people[0], s.people[followee]))
	}
	// The viewer has not seen the events from here on.
	step(slices.Concat(follows, conversations(s.people)), 2*time.Hour, 2*time.Hour)
	var starts, news []event
	for range maxLiveShows {
		starts = append(starts, s.startShow())
	}
	// The board lists shows by their start, and shows with the same start by their IDs. Sorted by number, the shows have the same
	// order by start and by ID.
	slices.SortFunc(starts, func(a, b event) int {
		return cmp.Compare(a.Input["showId"].(objectName).Number, b.Input["showId"].(objectName).Number)
	})
	step(starts, 40*time.Minute, 40*time.Minute)
	// Each text belongs to the next conversation, and the next member of that conversation says it.
	for i, text := range pastMessages {
		members := plannedConversations[i%len(plannedConversations)].members
		news = append(news, say(s.people[members[i/len(plannedConversations)%len(members)]], i%len(plannedConversations), text))
	}
	for range 4 * recentPostCount {
		news = append(news, s.like(s.randomPerson(0), s.recentPost()))
	}
	for i := range 9 {
		news = append(news, s.like(1+i, s.viewerPosts[i%2]))
	}
	news = append(news, s.comment(2, s.viewerPosts[0]), follow(s.people[5], s.people[0]),
		event{Mutation: "publishAnnouncement", Input: map[string]any{"title": "Welcome to Tidings", "content": "Everything on these two phones was pushed. Pull a lever below."}})
	step(append(news, views()...), 35*time.Minute, 20*time.Minute)
	// The newest posts come after everything that the viewer could have seen.
	var unread []event
	for i := range unreadPostCount {
		unread = append(unread, s.post(1+i%(len(cast)-1)))
	}
	step(unread, 18*time.Minute, time.Minute)
	return steps
}

const day = 24 * time.Hour

// spreadTimes sets the times of events evenly, in their order, between the times that are from and to ago. The first event is at
// from, and none is at to.
func spreadTimes(events []event, from, to time.Duration) {
	for i := range events {
		events[i].At = -fromNow(from - (from-to)*time.Duration(i)/time.Duration(len(events)))
	}
}

// profilesAndFollows returns the profiles of the people, and the follows of all but the viewer. The viewer follows later,
// and so has new posts to see. Profiles come before the follows: a follow creates a user who does not exist, and no user
// should be seen without a name.
func (s *script) profilesAndFollows() (events []event) {
	for _, one := range s.people {
		events = append(events, event{ActorKey: one.key, Mutation: "setProfile", Input: map[string]any{"name": one.name}})
	}
	for i, one := range s.people {
		for _, followee := range one.follows {
			if i > 0 {
				events = append(events, follow(one, s.people[followee]))
			}
		}
	}
	return events
}

// nextAct returns the next action of a random person.
func (s *script) nextAct() act {
	return act{relativePause: 0.4 + 1.2*s.random.Float64(), event: s.nextEvent()}
}

// nextEvent returns a random event. A third are posts; about an eighth like or answer posts of the viewer, whose badges should
// change often. The numbers of the cases are shares of 100.
func (s *script) nextEvent() event {
	// A case that draws one random number more, or one less, makes another world of the same seed.
	switch dice := s.random.IntN(100); {
	case dice < 34:
		return s.post(s.randomPerson(0))
	case dice < 44:
		return s.like(s.randomPerson(0), s.viewerPosts[s.random.IntN(len(s.viewerPosts))])
	case dice < 62:
		return s.like(s.randomPerson(0), s.recentPost())
	case dice < 65:
		return s.comment(s.randomPerson(0), s.viewerPosts[s.random.IntN(len(s.viewerPosts))])
	case dice < 71:
		return s.comment(s.randomPerson(0), s.recentPost())
	case dice < 83:
		number := s.random.IntN(len(plannedConversations))
		members := plannedConversations[number].members
		return say(s.people[members[s.random.IntN(len(members))]], number, s.messages.nextText())
	case dice < 86:
		return follow(s.people[s.randomPerson(0)], s.people[0])
	case dice < 88:
		// One person of the crowd follows another. Neither is the viewer.
		follower := s.randomPerson(0)
		return follow(s.people[follower], s.people[s.randomPerson(follower)])
	}
	// The remaining cases keep the live board busy: plan shows until there are enough, then start a show, and end a show when
	// too many are live.
	switch {
	case len(s.plannedShows) < maxUpcomingShows:
		return s.scheduleShow()
	case len(s.liveShows) >= maxLiveShows:
		return s.endShow()
	}
	return s.startShow()
}

// randomPerson chooses a person, weighted by activity, but never the viewer and never the person at the position besides. The cube
// gives half of all acts to the first eighth of the people.
func (s *script) randomPerson(besides int) int {
	for {
		// The people are sorted by activity, which falls steeply.
		chance := s.random.Float64()
		one := 1 + int(chance*chance*chance*float64(len(s.people)-1))
		if one != besides {
			return one
		}
	}
}

// recentPost chooses one of the newest posts. A post that the server refused has a number too; send then omits the events
// about it.
func (s *script) recentPost() int {
	return s.postCount - 1 - s.random.IntN(min(recentPostCount, s.postCount))
}

// post returns a new post of a person. Person 0 is the viewer, whose posts are all in the past. One post in thirty mentions
// the viewer: few enough that a visitor notices each mention.
func (s *script) post(author int) event {
	text := s.posts.nextText()
	if author > 0 && s.random.IntN(30) == 0 {
		text = "@" + viewerKey + " " + s.mentions.nextText()
	}
	s.postCount++
	return event{ActorKey: s.people[author].key, Mutation: "publishPost", Input: map[string]any{"body": text}, Creates: objectName{"post", s.postCount - 1}}
}

// like returns a like. A second like of the same post changes nothing on the server.
func (s *script) like(who, post int) event {
	return event{ActorKey: s.people[who].key, Mutation: "likePost", Input: map[string]any{"postId": objectName{"post", post}}}
}

// comment returns the event in which who comments on a post.
func (s *script) comment(who, post int) event {
	return event{ActorKey: s.people[who].key, Mutation: "publishPost", Input: map[string]any{"body": s.comments.nextText(), "parentId": objectName{"post", post}}}
}

// scheduleShow returns a new show of one of the cast. The viewer follows all of the cast. The show is planned for 3 minutes from now
// or later, so it stays upcoming until it is started by chance.
func (s *script) scheduleShow() event {
	host := 1 + s.random.IntN(len(cast)-1)
	s.plannedShows = append(s.plannedShows, s.showCount)
	s.showCount++
	wait := time.Duration(3+s.random.IntN(90)) * time.Minute
	return event{ActorKey: s.people[host].key, Mutation: "scheduleShow",
		Input: map[string]any{"title": s.titles.nextText(), "plannedAt": fromNow(wait)}, Creates: objectName{"show", s.showCount - 1}}
}

// startShow returns the start of a random planned show. There must be a planned show. The host is left out: ingestEntry fills in
// the user who made the show.
func (s *script) startShow() event {
	i := s.random.IntN(len(s.plannedShows))
	show := s.plannedShows[i]
	s.plannedShows = slices.Delete(s.plannedShows, i, i+1)
	s.liveShows = append(s.liveShows, show)
	return event{Mutation: "startShow", Input: map[string]any{"showId": objectName{"show", show}}}
}

// endShow returns the end of the show that has been live the longest. The show then becomes a replay without an address, as on a
// server whose video is still being made.
func (s *script) endShow() event {
	show := s.liveShows[0]
	s.liveShows = s.liveShows[1:]
	return event{Mutation: "endShow", Input: map[string]any{"showId": objectName{"show", show}}}
}

// follow returns a follow of one person by another. A second follow of the same person changes nothing.
func follow(follower, followee person) event {
	return event{ActorKey: follower.key, Mutation: "follow", Input: map[string]any{"userId": "user:" + followee.key}}
}

// views returns the events of a view that the viewer has touched once: its later items are new, and by default not in the
// total. Two items are enough to show a count.
func views() []event {
	const code, key = "news", "Old harbour"
	events := []event{{ActorKey: viewerKey, Mutation: "touchView", Input: map[string]any{"code": code, "key": key}}}
	for _, item := range []string{"the market moves", "a new ferry"} {
		events = append(events, event{Mutation: "addViewItem", Input: map[string]any{"code": code, "key": key, "item": item, "at": fromNow(-time.Minute)}})
	}
	return events
}

// say returns a message in a conversation.
func say(who person, conversation int, text string) event {
	return event{ActorKey: who.key, Mutation: "sendMessage", Input: map[string]any{"conversationId": objectName{"conversation", conversation}, "body": text}}
}

// conversations returns the events that create the conversations. The viewer is a member of each and never its creator, so that no
// creation is an act of the viewer. Even the direct conversation is created by its other member.
func conversations(people []person) (events []event) {
	for number, talk := range plannedConversations {
		kind, members := "GROUP", []string{"user:" + viewerKey}
		for _, member := range talk.members[1:] {
			members = append(members, "user:"+people[member].key)
		}
		input := map[string]any{"memberIds": members}
		if talk.title == "" {
			kind = "DIRECT"
		} else {
			input["title"] = talk.title
		}
		input["kind"] = kind
		events = append(events, event{ActorKey: people[talk.members[0]].key, Mutation: "createConversation", Input: input, Creates: objectName{"conversation", number}})
	}
	return events
}

// shuffledTexts returns texts in a random order, and repeats none before all were returned. unusedIndexes has the positions of the
// texts that were not returned since the last shuffle.
type shuffledTexts struct {
	random        *rand.Rand
	texts         []string
	unusedIndexes []int
}

// nextText returns the next text.
func (d *shuffledTexts) nextText() string {
	if len(d.unusedIndexes) == 0 {
		d.unusedIndexes = d.random.Perm(len(d.texts))
	}
	text := d.texts[d.unusedIndexes[0]]
	d.unusedIndexes = d.unusedIndexes[1:]
	return text
}

// person is a person in the world. The people are sorted by activity. follows has positions in the list of people, in
// ascending order.
type person struct {
	key, name string
	follows   []int // the people that this person follows, as positions in script.people
}

// makePeople makes the cast, the other people, and the follows of all: a few people have many followers, most have hardly
// any. Keys are made of a first name and a letter, so that no two people share one.
func makePeople(random *rand.Rand) []person {
	people := slices.Clone(cast)
	for i := range otherPeopleCount {
		first, letter := firstNames[i%len(firstNames)], 'a'+rune(i/len(firstNames)*5+i%5)
		people = append(people, person{key: first.key + "-" + string(letter), name: first.name + " " + string(letter-'a'+'A') + "."})
	}
	for i := range people {
		wanted := 3 + random.IntN(9)
		// The viewer follows all of the cast, and some of the others.
		if i == 0 {
			for followee := 1; followee < len(cast); followee++ {
				people[0].follows = append(people[0].follows, followee)
			}
			wanted += len(cast) + 8
		}
		// Because of the fourth power, nearly everybody follows the first people and nobody follows the last.
		for len(people[i].follows) < wanted {
			chance := random.Float64()
			followee := 1 + int(chance*chance*chance*chance*float64(len(people)-1))
			if random.IntN(oneInFollowsViewer) == 0 {
				followee = 0
			}
			if followee != i && !slices.Contains(people[i].follows, followee) {
				people[i].follows = append(people[i].follows, followee)
			}
		}
		slices.SortFunc(people[i].follows, cmp.Compare[int])
	}
	return people
}
