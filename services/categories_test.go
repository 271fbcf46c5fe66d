package services

import "testing"

// Each category has a first letter of its own, which documents store for it, and a count of its own in the badges.
func TestCategoriesHaveUniqueLettersAndCounts(t *testing.T) {
	counts, older := &NotificationCounts{}, &OlderCounts{}
	letters, seen := map[byte]Category{}, map[*Count]Category{}
	for _, category := range Categories {
		if other, taken := letters[category[0]]; taken {
			t.Errorf("%s begins like %s", category, other)
		}
		count := counts.Of(category)
		if count == nil || older.Of(category) == nil {
			t.Fatalf("%s has no count", category)
		}
		if other, taken := seen[count]; taken {
			t.Errorf("%s has the count of %s", category, other)
		}
		letters[category[0]], seen[count] = category, category
	}
	if counts.Of("LATER") != nil || older.Of("LATER") != nil {
		t.Error("an unknown category has a count")
	}
}
