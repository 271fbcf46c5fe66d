package feed

import (
	"context"
	"maps"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/notifications"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/sql"
)

// Draft is a post that a user wants to publish, or the new content of an edited post.
type Draft struct {
	Body     string
	Parent   services.PostID // the post that this one answers; 0: none
	Mentions []string        // keys of users, beside the users that the body names as @key
	// KeepListedMentions makes an edit keep the users that the list of the post mentioned.
	KeepListedMentions bool
}

// check checks everything that needs no SQL. The body may name more users: mentionedBy counts those together with the list.
func (d Draft) check() error {
	if err := services.CheckBody(d.Body); err != nil {
		return err
	}
	if people := len(slices.Compact(slices.Sorted(slices.Values(d.Mentions)))); people > services.MaxMentions {
		return tooManyMentions(people)
	}
	for _, key := range d.Mentions {
		if err := services.CheckUserKey(key); err != nil {
			return services.Errorf(services.Invalid, "mentions: %s", err)
		}
	}
	return nil
}

// tooManyMentions is the error of a draft that mentions more users than are allowed.
func tooManyMentions(got int) error {
	return services.Errorf(services.Invalid, "mentions: at most %d people can be mentioned, by the list and by @key in the body together, got %d", services.MaxMentions, got)
}

// Publish is the command by which a user publishes; the one ID of its result is the post's. An answer to a post is a comment, an
// answer to a comment or reply a reply. The parent's author and all mentioned users are notified; a mentioned parent author gets
// only the mention. @key in the body mentions that user if they exist, and is plain text otherwise. Users who block the author
// are not mentioned. NOT_FOUND if the parent does not exist, is deleted or is hidden from the author, and for a user in Mentions
// who does not exist.
func (s *Service) Publish(author services.UserID, draft Draft) (*jobs.Command, error) {
	if err := draft.check(); err != nil {
		return nil, err
	}
	var post services.Post
	var pulled uint64 // the changelog's version of a pulled post's entry
	return &jobs.Command{
		Name: "publishPost", Actor: author,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			parent, err := parentOf(ctx, tx, author, draft.Parent)
			if err != nil {
				return nil, err
			}
			mentioned, listed, err := mentionedBy(ctx, tx, author, draft, nil)
			if err != nil {
				return nil, err
			}
			// The ID is made after the locks, as late as possible: readers can miss a post that is committed long after
			// its ID was made.
			id, err := posts.NewID(ctx, tx, s.ids)
			if err != nil {
				return nil, err
			}
			post = services.Post{ID: id, Author: author, Kind: services.PostKindPost, Parent: draft.Parent, Body: draft.Body, UpdatedAt: tx.EventTime()}
			if post.Parent != 0 {
				post.Kind = parent.Kind.AnswerKind()
			}
			// Whether a post enters feeds is decided at publishing, like the mode: a changed setting moves no post that
			// readers have seen.
			post.OffFeed = !slices.Contains(s.kindsInFeeds, post.Kind)
			if pulled, err = insert(ctx, tx, &post); err != nil {
				return nil, err
			}
			if err := posts.InsertMentions(ctx, tx, post.ID, mentioned, listed); err != nil {
				return nil, err
			}
			queued, err := notifications.NotifyJobsAt(tx.EventMoment(), causesOfPost(post, parent, mentioned)...)
			if err != nil {
				return nil, err
			}
			return []string{post.GlobalID()}, jobs.Enqueue(ctx, tx, append(queued, fanout.FanOutJob(post.ID))...)
		},
		AfterApply: func(ctx context.Context) error {
			// The author's own page finds the body in this node's memory.
			s.posts.Keep(post.ID, post)
			if post.Pulled {
				s.pulled.ApplyOwnChange(nodecache.PullChange{Author: author, Post: post.ID}, pulled)
			}
			if post.OffFeed {
				return nil
			}
			return s.fanout.AddToOwnFeed(ctx, post)
		},
	}, nil
}

// insert writes a post with the mode of its author, which is one look-up for any number of followers. A pulled post is also written to
// the changelog, from which every node learns of it; pulled is the version of that entry.
func insert(ctx context.Context, tx *sql.Tx, post *services.Post) (pulled uint64, err error) {
	if !post.OffFeed {
		mode, err := posts.ModeOf(ctx, tx.Runner, post.Author)
		if err != nil {
			return 0, err
		}
		post.Pulled = mode == services.AuthorHuge
	}
	if err := posts.Insert(ctx, tx, *post); err != nil || !post.Pulled {
		return 0, err
	}
	return nodecache.PullChange{Author: post.Author, Post: post.ID}.Append(ctx, tx)
}

// parentOf reads the post that another one answers, and keeps it from being deleted until the transaction ends: no
// answer is published below a deleted post.
func parentOf(ctx context.Context, tx *sql.Tx, author services.UserID, id services.PostID) (parent services.Post, err error) {
	if id == 0 {
		return parent, nil
	}
	return posts.LockVisibleShared(ctx, tx, author, "parentId", id)
}

// mentionedBy returns the kept users and the users that a draft mentions, each once, without users who block the author. listed
// are the kept users and the users in the draft's list.
func mentionedBy(ctx context.Context, tx *sql.Tx, author services.UserID, draft Draft, kept []services.UserID) (all, listed []services.UserID, err error) {
	mentioned, listed := map[services.UserID]bool{}, slices.Clone(kept)
	for _, user := range kept {
		mentioned[user] = true
	}
	if len(draft.Mentions) > 0 {
		// An unknown key in the list is an error of the client. In the body it is plain text.
		ids, err := people.IDs(ctx, tx, draft.Mentions)
		if err != nil {
			return nil, nil, err
		}
		for _, key := range draft.Mentions {
			id, known := ids[key]
			if !known {
				return nil, nil, services.NoUserError("mentions", key)
			}
			mentioned[id], listed = true, append(listed, id)
		}
	}
	named, err := usersNamedIn(ctx, tx, draft.Body)
	if err != nil {
		return nil, nil, err
	}
	for _, user := range named {
		mentioned[user] = true
	}
	if len(mentioned) > services.MaxMentions {
		return nil, nil, tooManyMentions(len(mentioned))
	}
	all = slices.Sorted(maps.Keys(mentioned))
	blockers, err := people.BlockersOf(ctx, tx, author, all)
	return slices.DeleteFunc(all, func(user services.UserID) bool { return slices.Contains(blockers, user) }), listed, err
}

// usersNamedIn are the users that a body names as @key, by their keys. Unknown keys are left out.
func usersNamedIn(ctx context.Context, tx *sql.Tx, body string) (map[string]services.UserID, error) {
	keys := services.MentionedKeys(body)
	if len(keys) == 0 {
		return nil, nil
	}
	return people.IDs(ctx, tx, keys)
}

// causesOfPost are the notifications of a new post, or those that a deletion of the post withdraws. The causes only name the event:
// whether a notification is due follows from the facts when its job runs.
func causesOfPost(post, parent services.Post, mentioned []services.UserID) (causes []notifications.Cause) {
	id := services.SortableID(post.ID)
	// Nobody is notified of their own acts.
	for _, user := range mentioned {
		if user != post.Author {
			causes = append(causes, notifications.Cause{Recipient: user, Category: services.CategoryMention, Subject: id, Actor: post.Author})
		}
	}
	if post.Parent != 0 && parent.Author != post.Author && !slices.Contains(mentioned, parent.Author) {
		causes = append(causes, notifications.Cause{
			Recipient: parent.Author, Category: services.CategoryComment, Subject: services.SortableID(post.Parent), Actor: post.Author, Object: id,
		})
	}
	return causes
}

// Delete is the command by which an author deletes their post. NOT_FOUND if it never existed or is hidden from them, FORBIDDEN
// when it is another author's. Deleting again changes nothing.
func (s *Service) Delete(author services.UserID, id services.PostID) *jobs.Command {
	var changedAt time.Time
	var pulled uint64 // the changelog's version of a pulled post's entry; 0: the post is not pulled
	return &jobs.Command{
		Name: "deletePost", Actor: author,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			// The rights are checked after the change: a refusal undoes it, and the post is locked meanwhile.
			post, deleted, err := posts.Delete(ctx, tx, id)
			if err := posts.CheckIsAuthor(ctx, tx, author, "postId", id, post.Author, err); err != nil {
				return nil, err
			}
			if !deleted {
				return []string{post.GlobalID()}, jobs.ErrUnchanged
			}
			changedAt = post.UpdatedAt
			// The changelog notifies every node that the body is gone; the removal from inboxes is a job.
			if _, err := changelog.AppendChange(ctx, tx, posts.ChangelogKind, id.String(), changedAt); err != nil {
				return nil, err
			}
			// Apply may run again, and its first run may have seen another state.
			if pulled = 0; post.Pulled {
				if pulled, err = (nodecache.PullChange{Author: author, Post: id, Deleted: true}).Append(ctx, tx); err != nil {
					return nil, err
				}
			}
			left, err := withdrawalJobs(ctx, tx, post)
			if err != nil {
				return nil, err
			}
			return []string{post.GlobalID()}, jobs.Enqueue(ctx, tx, append(left, fanout.RemovePostJob(id))...)
		},
		AfterApply: func(context.Context) error {
			s.posts.RecordChange(id, changedAt)
			if pulled > 0 {
				s.pulled.ApplyOwnChange(nodecache.PullChange{Author: author, Post: id, Deleted: true}, pulled)
			}
			return nil
		},
		AfterCommit: func(ctx context.Context) error { return s.fanout.DropFromOwnFeed(ctx, author, id) },
	}
}

// withdrawalJobs are the jobs that withdraw the notifications of a deleted post: the notifications about the post, and the
// notifications that the post caused by its mentions and as an answer.
func withdrawalJobs(ctx context.Context, tx *sql.Tx, post services.Post) ([]jobs.NewJob, error) {
	mentioned, err := posts.Mentions(ctx, tx.Runner, post.ID)
	if err != nil {
		return nil, err
	}
	var parent services.Post
	if post.Parent != 0 {
		if parent, err = posts.LockShared(ctx, tx, post.Parent); err != nil {
			return nil, err
		}
	}
	// A cause without an actor stands for all of its subject: every like of the post, and every answer to it.
	causes := append(causesOfPost(post, parent, usersOf(mentioned)),
		notifications.Cause{Recipient: post.Author, Category: services.CategoryLike, Subject: services.SortableID(post.ID)},
		notifications.Cause{Recipient: post.Author, Category: services.CategoryComment, Subject: services.SortableID(post.ID)})
	return notifications.NotifyJobs(causes...)
}
