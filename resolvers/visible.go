package resolvers

import (
	"context"
	"maps"
	"slices"

	"tidings/dataloader"
	"tidings/services"
	"tidings/services/live"
)

// Posts and shows that a field reads by their IDs go through this file. It leaves out content that its author hides from the
// viewer, as if the content had never existed. Lists and the parents of posts come from services, which leave it out themselves.

// shownObjectIDs are the IDs of the objects that a response shows. An ID may be there twice.
type shownObjectIDs struct {
	posts  []services.PostID
	shows  []services.ShowID
	people []services.UserID
}

// visibleObjects has the objects that the viewer may see, with their authors and hosts; hidden, deleted and unknown objects are
// absent. A caller that does not find an ID cannot tell why, and neither can the viewer.
type visibleObjects struct {
	posts         map[services.PostID]services.Post
	shows         map[services.ShowID]live.Show
	people        map[services.UserID]services.User
	hiddenAuthors map[services.UserID]bool // authors and hosts who hide from the viewer or block them
}

// readVisibleObjects reads, in one batch, people and the posts and shows that the viewer may see, with each show as it is now. People
// themselves are always shown: they hide only their content. It takes two reads of objects and one of restrictions, however many
// IDs there are. Deleted posts are absent already, so that no caller has to check a flag.
func (r *Resolver) readVisibleObjects(ctx context.Context, viewer services.UserID, keys shownObjectIDs) (seen visibleObjects, err error) {
	loader := dataloader.From(ctx)
	if seen.shows, err = loader.Shows(ctx, keys.shows); err != nil {
		return seen, err
	}
	// Hosts are known only now, and are read with all other people.
	people := slices.Clone(keys.people)
	for _, show := range seen.shows {
		people = append(people, show.Host)
	}
	if seen.posts, seen.people, err = loader.PostsAndUsers(ctx, keys.posts, people); err != nil {
		return seen, err
	}
	// Restrictions are read only for authors and hosts. A response that has neither needs no statement here.
	var authors []services.UserID
	for _, post := range seen.posts {
		authors = append(authors, post.Author)
	}
	for _, show := range seen.shows {
		authors = append(authors, show.Host)
	}
	if seen.hiddenAuthors, err = r.readHiddenAuthors(ctx, viewer, authors); err != nil {
		return seen, err
	}
	// These maps belong to this call: objects that are deleted here stay in the loader's memory.
	maps.DeleteFunc(seen.posts, func(_ services.PostID, post services.Post) bool { return seen.hiddenAuthors[post.Author] })
	maps.DeleteFunc(seen.shows, func(_ services.ShowID, show live.Show) bool { return seen.hiddenAuthors[show.Host] })
	return seen, nil
}

// readHiddenAuthors returns the authors, among the given ones, who hide their posts and shows from the viewer. The viewer is never
// among them. The answer is from SQL: a block must hold for the next read, on every node.
func (r *Resolver) readHiddenAuthors(ctx context.Context, viewer services.UserID, authors []services.UserID) (map[services.UserID]bool, error) {
	authors = slices.DeleteFunc(authors, func(author services.UserID) bool { return author == viewer })
	return dataloader.From(ctx).HiddenAuthors(ctx, authors, func(ctx context.Context, authors []services.UserID) (map[services.UserID]bool, error) {
		return r.Social.HiddenAuthors(ctx, viewer, authors)
	})
}
