package feed

import (
	"context"
	"maps"
	"slices"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/posts"
	"tidings/services/sql"
)

// Edit is the command by which an author changes the body of their post, and its mentions. Users who are newly mentioned are
// notified at the time of the edit, and the notifications of users no longer mentioned are withdrawn. The post keeps its position
// in feeds, its counts and its parent; draft.Parent is ignored. Set draft.KeepListedMentions for an edit that does not change the
// list of mentions. NOT_FOUND if the post does not exist, is deleted or is hidden from the author; FORBIDDEN when it is another
// author's.
func (s *Service) Edit(author services.UserID, id services.PostID, draft Draft) (*jobs.Command, error) {
	if err := draft.check(); err != nil {
		return nil, err
	}
	var post services.Post
	return &jobs.Command{
		Name: "editPost", Actor: author,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			// lockOwnPost locks the post, so that two edits run one after the other, and the second sees the mentions of the first.
			before, err := lockOwnPost(ctx, tx, author, id)
			if err != nil {
				return nil, err
			}
			// The mentions are read before the edit, because the notifications of users who are no longer mentioned are
			// withdrawn.
			were, err := posts.Mentions(ctx, tx.Runner, id)
			if err != nil {
				return nil, err
			}
			var kept []services.UserID
			if draft.KeepListedMentions {
				if kept, err = usersInMentionList(ctx, tx, before); err != nil {
					return nil, err
				}
			}
			mentioned, listed, err := mentionedBy(ctx, tx, author, draft, kept)
			if err != nil {
				return nil, err
			}
			if post, err = posts.Edit(ctx, tx, id, draft.Body, mentionsAfterEdit(were, mentioned, tx.NewID(s.ids)), listed); err != nil {
				return nil, err
			}
			// The nodes drop their copies of the body. The fan-out is not repeated: inboxes hold IDs alone.
			if _, err := changelog.AppendChange(ctx, tx, posts.ChangelogKind, id.String(), post.UpdatedAt); err != nil {
				return nil, err
			}
			queued, err := notificationJobsAfterEdit(ctx, tx, before, usersOf(were), mentioned)
			if err != nil {
				return nil, err
			}
			return []string{post.GlobalID()}, jobs.Enqueue(ctx, tx, append(queued, projectPostCopyJob(id))...)
		},
		AfterApply: func(ctx context.Context) error {
			s.posts.Keep(post.ID, post)
			return s.projectPostCopy(ctx, id)
		},
	}, nil
}

// lockOwnPost reads a post that its author may change, and locks it until the transaction ends.
func lockOwnPost(ctx context.Context, tx *sql.Tx, author services.UserID, id services.PostID) (services.Post, error) {
	post, err := posts.Lock(ctx, tx, id)
	if err = posts.CheckIsAuthor(ctx, tx, author, "postId", id, post.Author, err); err == nil && post.Deleted {
		err = services.Errorf(services.NotFound, "postId: %s is deleted", post.GlobalID())
	}
	return post, err
}

// usersInMentionList are the users that the list of a post mentions, whether its body names them or not. If the facts do not say
// whether the list or the body mentions a user, the user counts as listed unless the body names them.
func usersInMentionList(ctx context.Context, tx *sql.Tx, post services.Post) ([]services.UserID, error) {
	listed, unknown, err := posts.MentionedByList(ctx, tx.Runner, post.ID)
	if err != nil || len(unknown) == 0 {
		return listed, err
	}
	named, err := usersNamedIn(ctx, tx, post.Body)
	if err != nil {
		return nil, err
	}
	byBody := slices.Collect(maps.Values(named))
	return append(listed, slices.DeleteFunc(unknown, func(user services.UserID) bool { return slices.Contains(byBody, user) })...), nil
}

// mentionsAfterEdit are the mentions of an edited post: users that it mentioned before keep the time of their mention, and the others are
// mentioned since the edit. at is an ID of the edit's time.
func mentionsAfterEdit(were []posts.Mention, mentioned []services.UserID, at services.SortableID) []posts.Mention {
	mentions := make([]posts.Mention, len(mentioned))
	for i, user := range mentioned {
		mentions[i] = posts.Mention{User: user, EditTimeID: at}
		if was := slices.IndexFunc(were, func(m posts.Mention) bool { return m.User == user }); was >= 0 {
			mentions[i] = were[was]
		}
	}
	return mentions
}

// usersOf returns the mentioned users.
func usersOf(mentions []posts.Mention) []services.UserID {
	return services.Map(mentions, func(mention posts.Mention) services.UserID { return mention.User })
}

// notificationJobsAfterEdit makes the jobs that bring the notifications of an edited post in line with the post: a job for each user that
// the post mentions or mentioned, and one for the parent's author. If the post now mentions the parent's author, they are notified of the
// mention and not of the answer. If it mentions them no longer, both causes are in their job, so that the answer is as seen and as read
// as the mention was.
func notificationJobsAfterEdit(ctx context.Context, tx *sql.Tx, post services.Post, were, mentioned []services.UserID) ([]jobs.NewJob, error) {
	// There is a job for each mention, new or gone: it compares the cause with the facts.
	everyone := slices.Concat(were, mentioned)
	slices.Sort(everyone)
	causes := causesOfPost(services.Post{ID: post.ID, Author: post.Author}, services.Post{}, slices.Compact(everyone))
	if post.Parent != 0 {
		parent, err := posts.LockShared(ctx, tx, post.Parent)
		if err != nil {
			return nil, err
		}
		causes = append(causes, causesOfPost(post, parent, nil)...)
	}
	return notifications.NotifyJobsAt(tx.EventMoment(), causes...)
}
