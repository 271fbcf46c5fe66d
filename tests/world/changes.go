package world

import "fmt"

// Change is a change of the change stream as a reader of the stream sees it.
type Change struct {
	Key, Version string                                 // the user's key; the version of their badges
	Total        int                                    // the total of the badges
	Silent       bool                                   // the reader must not alert the user
	Cause        *struct{ Source, Part, ItemID string } // the newest item to alert of; nil if Silent
	Sources      []struct {                             // the counts of sources and of their parts
		Source, Part string
		Count        int
	}
	Dots []string // the names of the dots that are lit
}

// ChangesReader follows the change stream through any node. LastByKey has each user's last change.
type ChangesReader struct {
	LastByKey         map[string]Change // by the key of the user
	LastAlertingByKey map[string]Change // each user's last change that was not silent
	readCursor        string            // the cursor up to which the stream was read; "" is its beginning
}

// ReadToEnd reads the stream to its end, from the node at url. A version of a user that does not rise is an error.
func (r *ChangesReader) ReadToEnd(url string) error {
	if r.LastByKey == nil {
		r.LastByKey, r.LastAlertingByKey = map[string]Change{}, map[string]Change{}
	}
	for {
		var data struct {
			Admin struct {
				Changes struct {
					List    []Change
					Cursor  string
					HasMore bool
				}
			}
		}
		var after any
		if r.readCursor != "" {
			after = r.readCursor
		}
		err := Ask(url, "boss:admin", `query($a:String){admin{changes(first:100,after:$a){list{key version total silent dots cause{source itemId} sources{source part count}}
			cursor hasMore}}}`, map[string]any{"a": after}, &data)
		if err != nil {
			return err
		}
		page := data.Admin.Changes
		for _, got := range page.List {
			if had := r.LastByKey[got.Key]; got.Version <= had.Version {
				return fmt.Errorf("%s: version %s after %s", got.Key, got.Version, had.Version)
			}
			if !got.Silent {
				r.LastAlertingByKey[got.Key] = got
			}
			r.LastByKey[got.Key] = got
		}
		r.readCursor = page.Cursor
		if !page.HasMore {
			return nil
		}
	}
}

// CheckAgainst returns an error if the change differs from the badges that the user is shown.
func (c Change) CheckAgainst(badges Badges) error {
	counts := map[string]int{}
	for _, source := range c.Sources {
		counts[source.Source+source.Part] = source.Count
	}
	lit := 0
	for _, dot := range badges.Dots {
		if dot.Lit {
			lit++
		}
	}
	for name, want := range map[string]int{
		"HOME_FEED": badges.HomeFeed.Value, "NOTIFICATIONSLIKE": badges.Notifications.Like.Value, "NOTIFICATIONSFOLLOW": badges.Notifications.Follow.Value,
		"ANNOUNCEMENTS": badges.Announcements.Value, "CONVERSATIONS": badges.Conversations.Total.Value, "SITE_MESSAGESgeneral": badges.SiteMessages.Total.Value,
	} {
		if counts[name] != want {
			return fmt.Errorf("%s is %d, and the badges have %d", name, counts[name], want)
		}
	}
	if c.Total != badges.Total.Value || len(c.Dots) != lit {
		return fmt.Errorf("total %d and dots %v, and the badges have %d and %d", c.Total, c.Dots, badges.Total.Value, lit)
	}
	return nil
}
