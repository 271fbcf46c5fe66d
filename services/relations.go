package services

// Relation is what a viewer and another user are to each other. What the other has set against the viewer is not in it.
type Relation struct {
	Follows  bool // the viewer follows the user, whether posts are shown or not
	Followed bool // the user follows the viewer
	Mutes    bool // the viewer mutes the user now
	Blocks   bool // the viewer blocks the user
	Hides    bool // the viewer hides their posts from the user
}
