package services

import (
	"testing"
	"unsafe"
)

func TestAnswersToPosts(t *testing.T) {
	for kind, want := range map[PostKind]PostKind{PostKindPost: PostKindComment, PostKindComment: PostKindReply, PostKindReply: PostKindReply} {
		if got := kind.AnswerKind(); got != want {
			t.Errorf("an answer to %s is %s", kind, got)
		}
	}
}

// A list of 2,000 followed authors is below 32 KB only if one has 16 bytes. Then Go keeps lists of its size for reuse.
func TestFollowedAuthorIsSmall(t *testing.T) {
	if got := unsafe.Sizeof(FollowedAuthor{}); got != 16 {
		t.Errorf("a FollowedAuthor has %d bytes, want 16", got)
	}
}
