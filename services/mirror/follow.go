package mirror

import "tidings/services"

// Follow says which conversations, which authors and which hosts the badges of a user show who is watched here: until
// Unfollow, or the next Follow, they are among those whom OnMoved is told of. It is called before these are read, so that no
// move falls between.
func (m *Mirror) Follow(user services.UserNumber, places []services.ReadSidePlace, authors, hosts []services.FollowedAuthor) {
	m.heads.readers.Follow(user, len(places), func(i int) services.ConversationID { return places[i].Conversation })
	m.pulled.readers.Follow(user, len(authors), func(i int) services.UserNumber { return authors[i].Author })
	m.shows.readers.show(user, hosts)
}
