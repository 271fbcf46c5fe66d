package feedhistory

import (
	"fmt"
	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/redis"
)

// makePulled makes an author's posts pulled. The mode is stored first, and then written into each follower's document: a rebuild or a follow
// that comes between the two reads the mode, and names the author by itself.
func (w *World) makePulled(author services.UserID) {
	if w.pulls[author] {
		return
	}
	w.Tracef("%d is pulled", author)
	if w.namesTooEarly {
		w.Enqueue(fmt.Sprintf("write down %d", author), func(func()) error { w.pulls[author] = true; return nil })
	} else {
		w.pulls[author] = true
	}
	w.QueueNaming(rdb.PulledAuthors, author)
}

// QueueNaming queues the jobs that write the author into a field of their followers' documents.
func (w *World) QueueNaming(field rdb.NamedField, author services.UserID) {
	followers := w.Followers(author, 0)
	for len(followers) > 0 {
		// A chunk is a range of IDs and not a list: it has the followers of the time when it runs.
		size := min(ChunkSize, len(followers))
		after, to := followers[0]-1, followers[size-1]
		w.Enqueue(fmt.Sprintf("name %d in %s up to %d", author, field, to), func(pause func()) error { return w.nameAuthor(pause, field, author, after, to) })
		followers = followers[size:]
	}
}

// nameAuthor writes an author into the documents of the followers with IDs in (after, to], by the follows at the time when it runs.
func (w *World) nameAuthor(pause func(), field rdb.NamedField, author, after, to services.UserID) error {
	// The stamp is taken before the edges are read: see the path of a change in package rdb.
	stamp, err := w.Client.Now(w.Ctx)
	if err != nil {
		return err
	}
	pause()
	var adds []rdb.NamedAdd
	for _, reader := range w.Followers(author, after) {
		if reader <= to {
			adds = append(adds, rdb.NamedAdd{Reader: reader, Author: services.FollowedAuthor{Author: author, Since: w.edges[edge{reader, author}]}})
		}
	}
	pause()
	results, err := w.Client.MergeNamed(w.Ctx, field, stamp, adds)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result.Status == redis.Retry {
			pause()
			if err := w.reconcile(pause, adds[i].Reader, author); err != nil {
				return err
			}
		}
	}
	return nil
}

// pulledBy lists the pulled authors that a reader follows, by the facts.
func (w *World) pulledBy(reader services.UserID) (list []services.FollowedAuthor) {
	for edge, since := range w.edges {
		if edge.reader == reader && w.pulls[edge.author] {
			list = append(list, services.FollowedAuthor{Author: edge.author, Since: since})
		}
	}
	return SortByAuthor(list)
}
