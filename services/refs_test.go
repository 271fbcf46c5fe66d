package services

import (
	"strings"
	"testing"
)

// The ID of an object with a number and the ID of a ref are both read back, and are told apart.
func TestObjectsAndRefsAreReadBack(t *testing.T) {
	for _, kind := range RefTypes {
		for _, number := range []uint64{1, 77, 5<<31 | 1, 1<<32 - 1} {
			if kind == MessageType {
				number |= 5<<31 | 1
			}
			if kind == ConversationType {
				number = uint64(uint32(number))
			}
			object := Object{kind, number}
			if got, err := ParseObject("id", object.GlobalID()); got != object || err != nil {
				t.Errorf("%s is read as %+v: %v", object.GlobalID(), got, err)
			}
			if IsRef(object.GlobalID()) {
				t.Errorf("%s is no ref", object.GlobalID())
			}
		}
		for _, text := range []string{"1", "a b", "ref:1", "news/17", "%", "é", strings.Repeat("x", MaxKeyCharacters)} {
			ref := Ref{kind, text}
			if got, err := ParseRef("id", ref.GlobalID()); got != ref || err != nil || !IsRef(ref.GlobalID()) {
				t.Errorf("%s is read as %+v: %v", ref.GlobalID(), got, err)
			}
		}
	}
	for _, id := range []string{"user:ref:1", "user:ref%3A1", "notification:ref:1", "view:ref:1", "post:1", "ref:1", "post", ""} {
		if IsRef(id) {
			t.Errorf("%s is a ref", id)
		}
	}
	for _, id := range []string{"post:ref:", "post:ref:a b", "post:ref:a%2f", "post:ref:%C3", "post:ref:%20a", "post:ref:a%CC%81", "post:ref:" + strings.Repeat("x", MaxKeyCharacters+1)} {
		if ref, err := ParseRef("postId", id); CodeOf(err) != Invalid || !strings.HasPrefix(err.Error(), "postId: ") {
			t.Errorf("%s is read as %+v: %v", id, ref, err)
		}
	}
	for _, id := range []string{"user:alice", "post:1", "conversation:0000000", "message:0000000000001", ""} {
		if object, err := ParseObject("id", id); CodeOf(err) != Invalid {
			t.Errorf("%s is read as %+v: %v", id, object, err)
		}
	}
}

func TestCheckLabelData(t *testing.T) {
	for data, want := range map[string]Code{
		"": "", "{}": "", `{"a":"` + strings.Repeat("x", maxLabelDataBytes-8) + `"}`: "", `{"a":"` + strings.Repeat("x", maxLabelDataBytes-7) + `"}`: Invalid, "[]": Invalid, `"x"`: Invalid,
	} {
		if got := CodeOf(CheckLabelData(data)); got != want {
			t.Errorf("%.20s: %q, want %q", data, got, want)
		}
	}
}
