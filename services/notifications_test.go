package services

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestExpiryInWholeDays(t *testing.T) {
	expiry := Expiry{CategoryLike: 2, CategoryMention: Never}
	counts := CategoryCounts{Older: 100, Day: 20, Days: [8]int{1, 2, 4, 8, 16, 32, 64, 128}}
	for _, want := range []struct {
		category     Category
		today        int64
		value, older int
	}{
		{CategoryLike, 20, 1 + 2 + 4, 100 + 8 + 16 + 32 + 64 + 128},
		{CategoryLike, 21, 1 + 2, 100 + 4 + 8 + 16 + 32 + 64 + 128},
		{CategoryLike, 23, 0, 100 + 255},
		{CategoryComment, 20, 255, 100}, // not listed: the default
		{CategoryComment, 27, 1, 100 + 254},
		{CategoryComment, 28, 0, 100 + 255},
		{CategoryMention, 20, 355, 0},
		{CategoryMention, 2000, 355, 0},
	} {
		counts.Category = want.category
		if value, older := expiry.Unexpired(counts, want.today); value != want.value || older != want.older {
			t.Errorf("%s on day %d: %d and %d older, want %+v", want.category, want.today, value, older, want)
		}
	}
	for _, category := range Categories {
		if oldest := Expiry(nil).OldestDay(category, 100); oldest != 100-MaxExpiryDays {
			t.Errorf("%s by default: what is of day %d counts on day 100", category, oldest)
		}
	}
}

// Time alone moves groups from the count to the older ones, one way, and loses none.
func TestExpiryLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := CategoryCounts{Category: CategoryLike, Older: rapid.IntRange(0, 9).Draw(t, "older"), Day: 100}
		sum := counts.Older
		for i := range counts.Days {
			counts.Days[i] = rapid.IntRange(0, 9).Draw(t, "groups")
			sum += counts.Days[i]
		}
		expiry := Expiry{CategoryLike: rapid.IntRange(Never, MaxExpiryDays).Draw(t, "days")}
		last := sum
		for today := counts.Day; today < counts.Day+10; today++ {
			value, older := expiry.Unexpired(counts, today)
			if value+older != sum || value > last || expiry[CategoryLike] == Never && older != 0 {
				t.Fatalf("day %d: %d and %d older of %d, before %d", today, value, older, sum, last)
			}
			last = value
		}
	})
}

func TestCheckCategories(t *testing.T) {
	if all, err := CheckCategories("categories", nil); len(all) != len(Categories) || err != nil {
		t.Errorf("none stands for %v, %v", all, err)
	}
	twice := []Category{CategoryMention, CategoryFollow, CategoryMention}
	got, err := CheckCategories("categories", twice)
	if !slices.Equal(got, []Category{CategoryFollow, CategoryMention}) || err != nil || twice[1] != CategoryFollow {
		t.Errorf("twice: %v, %v", got, err)
	}
	if _, err := CheckCategories("categories", []Category{"SHOE"}); CodeOf(err) != Invalid {
		t.Errorf("unknown: %v", err)
	}
}

func TestAnswersToPosts(t *testing.T) {
	for kind, want := range map[PostKind]PostKind{PostKindPost: PostKindComment, PostKindComment: PostKindReply, PostKindReply: PostKindReply} {
		if got := kind.AnswerKind(); got != want {
			t.Errorf("an answer to %s is %s", kind, got)
		}
	}
}
