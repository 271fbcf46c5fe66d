package fanout

import "fmt"

// Settings are the numbers of followers from which an author is big, and huge. They hold until an admin sets other values, which are in
// SQL. New takes the default for one that is zero. All nodes need the same values.
type Settings struct {
	BigFollowers  int `default:"5000" placeholder:"COUNT" min:"1" max:"2147483647" help:"an author with this many followers is big: their posts are pushed only to followers who are not idle; an admin can change it while the server runs"`
	HugeFollowers int `default:"1000000" placeholder:"COUNT" min:"1" max:"2147483647" help:"an author with this many followers is huge: their posts are not pushed, and every node holds the newest in memory; an admin can change it while the server runs"`
}

// Faults returns the reasons why settings are invalid, by flag.
func (s Settings) Faults() map[string]string {
	reason := ""
	if s.HugeFollowers < s.BigFollowers {
		reason = fmt.Sprintf("it must be at least --big-followers, %d", s.BigFollowers)
	}
	return map[string]string{"huge-followers": reason}
}
