package services

import "testing"

func TestAnswersToPosts(t *testing.T) {
	for kind, want := range map[PostKind]PostKind{PostKindPost: PostKindComment, PostKindComment: PostKindReply, PostKindReply: PostKindReply} {
		if got := kind.AnswerKind(); got != want {
			t.Errorf("an answer to %s is %s", kind, got)
		}
	}
}
