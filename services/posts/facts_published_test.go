package posts

import (
	"testing"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// Pushed and pulled posts are one list. The list is empty for an author who hides from the viewer or blocks them, and not for one that
// the viewer blocks or mutes.
func TestPublishedPostsAreWalkedToTheirEnd(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const viewer services.UserID = 7
		b.MakeUsers("a", "b", "hider", "blocker", "blocked", "muted", "viewer")
		b.insertPosts(1, 50, 60, 70, 80)
		for author := services.UserID(2); author <= viewer; author++ {
			b.insertPosts(author, services.PostID(100+author))
		}
		b.MustWrite(func(tx *sql.Tx) error {
			for _, text := range []string{
				`INSERT INTO hides (author, follower, made) VALUES (3, 7, 1)`, `INSERT INTO blocks (blocker, blocked, made) VALUES (4, 7, 1), (7, 5, 2)`,
				`INSERT INTO mutes (muter, muted, made, until) VALUES (7, 6, 1, 0)`,
			} {
				if _, err := sqltest.QueryLines(b.Ctx, tx, text); err != nil {
					return err
				}
			}
			for _, post := range []services.Post{
				{ID: 65, Author: 1, Kind: services.PostKindPost, Body: "pulled", Pulled: true}, {ID: 45, Author: 1, Kind: services.PostKindPost, Body: "pulled", Pulled: true},
				{ID: 75, Author: 1, Kind: services.PostKindComment, Body: "no feed has it", Parent: 50, OffFeed: true},
			} {
				if err := Insert(b.Ctx, tx, post); err != nil {
					return err
				}
			}
			_, _, err := Delete(b.Ctx, tx, 60)
			return err
		})
		read := func(pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[ShownPost], error) {
			return PublishedPosts(b.Ctx, b.DB, viewer, pages)
		}
		for size := 1; size <= 7; size++ {
			walked, _ := peopletest.WalkUserLists(b.T, size, []services.UserID{1, 2, 3, 4, 5, 6, 7}, func(post ShownPost) uint64 { return uint64(post.ID) }, read)
			sqltest.Equal(b.T, walked, map[services.UserID][]uint64{1: {80, 70, 65, 50, 45}, 2: {102}, 5: {105}, 6: {106}, 7: {107}})
		}
		page := services.UserPageRequest{Owner: 1, Before: 60, Size: 1} // the post at that position is deleted
		list := sqltest.Must(read([]services.UserPageRequest{page}))(b.T)[page]
		sqltest.Equal(b.T, list.Items[0].ID, services.PostID(50))
		sqltest.Equal(b.T, list.Items[0].By.Key, "a")
		sqltest.Equal(b.T, len(sqltest.Must(read(nil))(b.T)), 0)
	})
}
