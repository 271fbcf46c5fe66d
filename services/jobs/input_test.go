package jobs

import (
	"bytes"
	"testing"
	"time"

	"tidings/services"
)

// inputPart is an object in an input.
type inputPart struct {
	Name string
	On   *bool
}

// mutationInput is the input of a mutation, with a field of each kind.
type mutationInput struct {
	Text  *string
	Other *string
	Names []string
	Parts []inputPart
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
		"nothing":         {mutationInput{}, &mutationInput{}, mutationInput{Names: []string{}}},
		"an empty text":   {mutationInput{Text: &empty}},
		"a text":          {mutationInput{Text: &minus}},
		"another's text":  {mutationInput{Other: &minus}},
		"a size":          {mutationInput{Size: -1}},
		"a time":          {mutationInput{At: &noon}, mutationInput{At: &one}},
		"a later time":    {mutationInput{At: &later}},
		"names":           {mutationInput{Names: []string{"a", "b"}}, mutationInput{Names: []string{"b", "a", "b"}}},
		"other names":     {mutationInput{Names: []string{"a,b"}}},
		"one name":        {mutationInput{Names: []string{"a"}}},
		"parts":           {mutationInput{Parts: []inputPart{{"a", &yes}, {"b", nil}}}, mutationInput{Parts: []inputPart{{"b", nil}, {"a", &yes}}}},
		"another part":    {mutationInput{Parts: []inputPart{{"a", &no}, {"b", nil}}}},
		"a great number":  {mutationInput{ID: 1<<63 + 1}},
		"the next number": {mutationInput{ID: 1<<63 + 2}},
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
	if _, err := inputHash("n", mutationInput{}); err != nil {
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
		had   rememberedRequest // the stored answer
		makes string            // the type of the IDs that the command makes
		fits  bool              // the answer may be that of the command
	}{
		{rememberedRequest{InputHash: before}, "", true},
		{rememberedRequest{InputHash: before, IDs: []string{"post:1"}}, services.PostType, true},
		{rememberedRequest{InputHash: before, IDs: []string{"1234"}}, "", true}, // not a global ID
		{rememberedRequest{InputHash: before, IDs: []string{"post:1"}}, services.ShowType, false},
		{rememberedRequest{InputHash: before, IDs: []string{"post:1"}}, "", false},
		{rememberedRequest{InputHash: before}, services.PostType, false},
		{rememberedRequest{InputHash: before, Refusal: refusal}, services.PostType, true},
		{rememberedRequest{InputHash: now}, "", false},
		{rememberedRequest{InputHash: now, Refusal: refusal}, "", false},
		{rememberedRequest{}, "", false},
	} {
		cmd := Command{CreatedType: memory.makes}
		if fits := cmd.matchesPreviousReleaseRequest(memory.had); fits != memory.fits {
			t.Errorf("%+v for a command that makes %q: %t", memory.had, memory.makes, fits)
		}
	}
}
