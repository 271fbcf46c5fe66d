package feedhistory

import (
	"fmt"
	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/redis"
)

// makePulled makes an author's posts pulled. The mode is stored first, and then written into each follower's document: a rebuild or
// a follow that comes between the two reads the mode, and names the author by itself.
func (w *World) makePulled(author services.UserID) {
	if w.pulledAuthors[author] {
		return
	}
	w.Tracef("%d is pulled", author)
	if w.documentsNameAuthorTooEarly {
		w.Enqueue(fmt.Sprintf("write down %d", author), func(func()) error { w.pulledAuthors[author] = true; return nil })
	} else {
		w.pulledAuthors[author] = true
	}
	w.QueueAddAuthorJobs(rdb.PulledAuthorsField, author)
}

// QueueAddAuthorJobs queues the jobs that write the author into a field of their followers' documents.
func (w *World) QueueAddAuthorJobs(field rdb.AuthorsField, author services.UserID) {
	followers := w.Followers(author, 0)
	for len(followers) > 0 {
		// A chunk is a range of IDs and not a list: it has the followers of the time when it runs.
		size := min(FollowersPerChunk, len(followers))
		after, to := followers[0]-1, followers[size-1]
		w.Enqueue(fmt.Sprintf("name %d in %s up to %d", author, field, to), func(pause func()) error { return w.addAuthorToDocuments(pause, field, author, after, to) })
		followers = followers[size:]
	}
}

// addAuthorToDocuments writes an author into the documents of the followers with IDs in (after, to], by the follows at the time
// when it runs.
func (w *World) addAuthorToDocuments(pause func(), field rdb.AuthorsField, author, after, to services.UserID) error {
	// The stamp is taken before the follows are read: see the path of a change in package rdb.
	stamp, err := w.Client.Client.Now(w.Ctx)
	if err != nil {
		return err
	}
	pause()
	var adds []rdb.AuthorAddition
	for _, reader := range w.Followers(author, after) {
		if reader <= to {
			adds = append(adds, rdb.AuthorAddition{Reader: reader, Author: services.FollowedAuthor{Author: author, ItemsCountAfter: w.followStarts[edge{reader, author}]}})
		}
	}
	pause()
	results, err := w.Client.MergeAuthors(w.Ctx, field, stamp, adds)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result.Status == redis.Retry {
			pause()
			if err := w.reconcileFollow(pause, adds[i].Reader, author); err != nil {
				return err
			}
		}
	}
	return nil
}

// pulledAuthorsOf lists the pulled authors that a reader follows, by the facts.
func (w *World) pulledAuthorsOf(reader services.UserID) (list []services.FollowedAuthor) {
	for edge, since := range w.followStarts {
		if edge.reader == reader && w.pulledAuthors[edge.author] {
			list = append(list, services.FollowedAuthor{Author: edge.author, ItemsCountAfter: since})
		}
	}
	return SortByAuthor(list)
}
