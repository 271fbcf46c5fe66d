package dataloader

import (
	"context"

	"tidings/services"
	"tidings/services/store"
)

// ShownPost is a post that was read as a part of another's, with all posts that were read with it: what is asked of one of them
// is read for all.
type ShownPost struct {
	store.ShownPost
	Together []services.Post
}

// AnswerList is a page of answers. Together are the answers of all pages that were read with it.
type AnswerList struct {
	store.AnswerList
	Together []services.Post
}

// postParts are what the response has read of its posts besides themselves.
type postParts struct {
	engagement Batch[services.PostID, services.Engagement]
	visible    Batch[services.PostID, ShownPost]
	answers    Batch[store.AnswersPage, AnswerList]
	likes      Batch[store.LikesPage, store.LikeList]
}

// Engagements reads what the viewer is told of posts. The caller has checked that the viewer may see them, as in the methods
// below; a response has one viewer.
func (l *Loader) Engagements(ctx context.Context, posts []services.PostID, read func(context.Context, []services.PostID) (map[services.PostID]services.Engagement, error)) (map[services.PostID]services.Engagement, error) {
	return l.memory().parts.engagement.Load(ctx, posts, read)
}

// Visible reads posts that the viewer may see, with what the viewer is told of them; the others are absent.
func (l *Loader) Visible(ctx context.Context, posts []services.PostID, read func(context.Context, []services.PostID) (map[services.PostID]store.ShownPost, error)) (map[services.PostID]ShownPost, error) {
	m := l.memory()
	return m.parts.visible.Load(ctx, posts, func(ctx context.Context, posts []services.PostID) (map[services.PostID]ShownPost, error) {
		read, err := read(ctx, posts)
		together, authors := make([]services.Post, 0, len(read)), make([]services.User, 0, len(read))
		for _, post := range read {
			together, authors = append(together, post.Post), append(authors, post.By)
		}
		m.meetUsers(authors)
		found := make(map[services.PostID]ShownPost, len(read))
		for id, post := range read {
			m.parts.engagement.Keep(id, post.Engagement)
			found[id] = ShownPost{post, together}
		}
		return found, err
	})
}

// Answers reads pages of answers, with what the viewer is told of each.
func (l *Loader) Answers(ctx context.Context, pages []store.AnswersPage, read func(context.Context, []store.AnswersPage) (map[store.AnswersPage]store.AnswerList, error)) (map[store.AnswersPage]AnswerList, error) {
	m := l.memory()
	return m.parts.answers.Load(ctx, pages, func(ctx context.Context, pages []store.AnswersPage) (map[store.AnswersPage]AnswerList, error) {
		read, err := read(ctx, pages)
		var together []services.Post
		var authors []services.User
		for _, list := range read {
			for _, post := range list.Answers {
				m.parts.engagement.Keep(post.ID, post.Engagement)
				together, authors = append(together, post.Post), append(authors, post.By)
			}
		}
		m.meetUsers(authors)
		found := make(map[store.AnswersPage]AnswerList, len(read))
		for page, list := range read {
			found[page] = AnswerList{list, together}
		}
		return found, err
	})
}

// Likes reads pages of the likes of posts.
func (l *Loader) Likes(ctx context.Context, pages []store.LikesPage, read func(context.Context, []store.LikesPage) (map[store.LikesPage]store.LikeList, error)) (map[store.LikesPage]store.LikeList, error) {
	m := l.memory()
	return m.parts.likes.Load(ctx, pages, func(ctx context.Context, pages []store.LikesPage) (map[store.LikesPage]store.LikeList, error) {
		found, err := read(ctx, pages)
		var users []services.User
		for _, list := range found {
			for _, like := range list.Likes {
				users = append(users, like.By)
			}
		}
		m.meetUsers(users)
		return found, err
	})
}
