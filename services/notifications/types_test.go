package notifications

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tidings/services"
)

func TestExpiryInWholeDays(t *testing.T) {
	expiry := ExpiryDays{services.CategoryLike: 2, services.CategoryMention: services.NeverExpires}
	counts := services.CategoryCounts{OlderUnseen: 100, NewestDay: 20, CountByDay: [8]int{1, 2, 4, 8, 16, 32, 64, 128}}
	for _, want := range []struct {
		category     services.Category
		today        int64
		value, older int
	}{
		{services.CategoryLike, 20, 1 + 2 + 4, 100 + 8 + 16 + 32 + 64 + 128},
		{services.CategoryLike, 21, 1 + 2, 100 + 4 + 8 + 16 + 32 + 64 + 128},
		{services.CategoryLike, 23, 0, 100 + 255},
		{services.CategoryComment, 20, 255, 100}, // not listed: the default
		{services.CategoryComment, 27, 1, 100 + 254},
		{services.CategoryComment, 28, 0, 100 + 255},
		{services.CategoryMention, 20, 355, 0},
		{services.CategoryMention, 2000, 355, 0},
	} {
		counts.Category = want.category
		if value, older := expiry.splitByExpiry(counts, want.today); value != want.value || older != want.older {
			t.Errorf("%s on day %d: %d and %d older, want %+v", want.category, want.today, value, older, want)
		}
	}
	for _, category := range services.Categories {
		if oldest := ExpiryDays(nil).oldestCountedDay(category, 100); oldest != 100-services.MaxExpiryDays {
			t.Errorf("%s by default: what is of day %d counts on day 100", category, oldest)
		}
	}
}

// Time alone moves groups from the count to the older ones, one way, and loses none.
func TestExpiryLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := services.CategoryCounts{Category: services.CategoryLike, OlderUnseen: rapid.IntRange(0, 9).Draw(t, "older"), NewestDay: 100}
		sum := counts.OlderUnseen
		for i := range counts.CountByDay {
			counts.CountByDay[i] = rapid.IntRange(0, 9).Draw(t, "groups")
			sum += counts.CountByDay[i]
		}
		expiry := ExpiryDays{services.CategoryLike: rapid.IntRange(services.NeverExpires, services.MaxExpiryDays).Draw(t, "days")}
		last := sum
		for today := counts.NewestDay; today < counts.NewestDay+10; today++ {
			value, older := expiry.splitByExpiry(counts, today)
			if value+older != sum || value > last || expiry[services.CategoryLike] == services.NeverExpires && older != 0 {
				t.Fatalf("day %d: %d and %d older of %d, before %d", today, value, older, sum, last)
			}
			last = value
		}
	})
}

func TestCheckCategories(t *testing.T) {
	s := &Service{Memory: &CategoryMemory{}}
	s.Memory.current.Store(&services.HostCategories{Version: 1, List: []services.HostCategory{{ID: 1, Name: "orders"}, {ID: 2, Name: "calls"}}})
	all := len(services.Categories) + 2
	if list, err := s.checkCategories("categories", nil); len(list) != all || err != nil {
		t.Errorf("none stands for %v, %v", list, err)
	}
	if none, err := s.checkCategories("categories", []services.Category{}); services.CodeOf(err) != services.Invalid {
		t.Errorf("an empty list stands for %v, %v", none, err)
	}
	twice := []services.Category{services.CategoryMention, services.CategoryFollow, services.CategoryMention}
	got, err := s.checkCategories("categories", twice)
	if !slices.Equal(got, []services.Category{services.CategoryFollow, services.CategoryMention}) || err != nil || twice[1] != services.CategoryFollow {
		t.Errorf("twice: %v, %v", got, err)
	}
	hosts, err := s.checkCategories("categories", []services.Category{"orders", services.CategoryHost, services.CategoryLike})
	if !slices.Equal(hosts, []services.Category{services.CategoryLike, "calls", "orders"}) || err != nil {
		t.Errorf("those of the host: %v, %v", hosts, err)
	}
	for _, unknown := range []services.Category{"SHOE", "shoe", "", "a b"} {
		if _, err := s.checkCategories("categories", []services.Category{unknown}); services.CodeOf(err) != services.Invalid {
			t.Errorf("%q: %v", unknown, err)
		}
	}
}
