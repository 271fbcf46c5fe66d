package jobs

import (
	"bytes"
	"testing"
	"time"

	"tidings/services"
)

// part is an object in an input.
type part struct {
	Name string
	On   *bool
}

// input is the input of a mutation, with a field of each kind.
type input struct {
	Text  *string
	Other *string
	Names []string
	Parts []part
	ID    uint64
	Size  int
	At    *time.Time
}

// A request has the same hash for any order of its lists, and different requests have different hashes.
func TestInputsHaveDistinctHashes(t *testing.T) {
	empty, minus, yes, no := "", "-", true, false
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	one, later := noon.In(time.FixedZone("east", 3600)), noon.Add(time.Microsecond)
	hashes := map[string]string{}
	for what, same := range map[string][]any{
		"nothing":         {input{}, &input{}, input{Names: []string{}}},
		"an empty text":   {input{Text: &empty}},
		"a text":          {input{Text: &minus}},
		"another's text":  {input{Other: &minus}},
		"a size":          {input{Size: -1}},
		"a time":          {input{At: &noon}, input{At: &one}},
		"a later time":    {input{At: &later}},
		"names":           {input{Names: []string{"a", "b"}}, input{Names: []string{"b", "a", "b"}}},
		"other names":     {input{Names: []string{"a,b"}}},
		"one name":        {input{Names: []string{"a"}}},
		"parts":           {input{Parts: []part{{"a", &yes}, {"b", nil}}}, input{Parts: []part{{"b", nil}, {"a", &yes}}}},
		"another part":    {input{Parts: []part{{"a", &no}, {"b", nil}}}},
		"a great number":  {input{ID: 1<<63 + 1}},
		"the next number": {input{ID: 1<<63 + 2}},
	} {
		for _, in := range same {
			cmd := Command{Name: "n", Input: in}
			hash, err := inputHash(cmd.Name, cmd.Input)
			if err != nil {
				t.Fatal(err)
			}
			if other, known := hashes[string(hash)]; known && other != what {
				t.Errorf("%s is %s", what, other)
			}
			hashes[string(hash)] = what
		}
	}
	if len(hashes) != 14 {
		t.Errorf("14 inputs have %d hashes", len(hashes))
	}
	first, _ := inputHash("n", 1)
	if second, _ := inputHash("m", 1); bytes.Equal(first, second) {
		t.Error("two operations have one hash")
	}
	if _, err := inputHash("n", nil); err == nil {
		t.Error("a command without an input has a hash")
	}
	if _, err := inputHash("n", input{}); err != nil {
		t.Error(err)
	}
	if _, err := inputHash("n", map[string]int{}); err == nil {
		t.Error("a map has a hash")
	}
}

// An answer stored by the previous release fits a command that makes the same kind of ID, or that was refused. An answer
// stored by this release needs the same hash.
func TestAnswersStoredByThePreviousRelease(t *testing.T) {
	before, now := make([]byte, 32), make([]byte, 33)
	refusal := &services.Error{Code: services.Conflict}
	for _, memory := range []struct {
		had   RememberedRequest
		makes string
		fits  bool
	}{
		{RememberedRequest{BodyHash: before}, "", true},
		{RememberedRequest{BodyHash: before, IDs: []string{"post:1"}}, services.PostType, true},
		{RememberedRequest{BodyHash: before, IDs: []string{"1234"}}, "", true}, // not a global ID
		{RememberedRequest{BodyHash: before, IDs: []string{"post:1"}}, services.ShowType, false},
		{RememberedRequest{BodyHash: before, IDs: []string{"post:1"}}, "", false},
		{RememberedRequest{BodyHash: before}, services.PostType, false},
		{RememberedRequest{BodyHash: before, Refusal: refusal}, services.PostType, true},
		{RememberedRequest{BodyHash: now}, "", false},
		{RememberedRequest{BodyHash: now, Refusal: refusal}, "", false},
		{RememberedRequest{}, "", false},
	} {
		cmd := Command{CreatedType: memory.makes}
		if fits := cmd.fitsUnversioned(memory.had); fits != memory.fits {
			t.Errorf("%+v for a command that makes %q: %t", memory.had, memory.makes, fits)
		}
	}
}
