package services

import "testing"

// A user's choice overrides the definition of a category, except that a number the definition keeps out of the total stays out.
func TestAChosenModeOverridesTheDefinition(t *testing.T) {
	const none = CategoryMode(255)
	for _, one := range []struct{ defined, chosen, want CategoryMode }{
		{CategoryCounted, none, CategoryCounted}, {CategoryDot, none, CategoryDot}, {CategoryOutsideTotal, none, CategoryOutsideTotal},
		{CategoryCounted, CategoryCounted, CategoryCounted}, {CategoryCounted, CategoryDot, CategoryDot}, {CategoryCounted, CategoryOff, CategoryOff},
		{CategoryDot, CategoryCounted, CategoryCounted}, {CategoryDot, CategoryDot, CategoryDot}, {CategoryDot, CategoryOff, CategoryOff},
		{CategoryOutsideTotal, CategoryCounted, CategoryOutsideTotal}, {CategoryOutsideTotal, CategoryDot, CategoryDot}, {CategoryOutsideTotal, CategoryOff, CategoryOff},
	} {
		modes := CategoryModes{ByCategory: map[Category]CategoryMode{"orders": one.chosen, "promo": CategoryOff}}
		if one.chosen == none {
			delete(modes.ByCategory, "orders")
		}
		if got := modes.EffectiveMode("orders", one.defined); got != one.want {
			t.Errorf("%d over %d is %d, want %d", one.chosen, one.defined, got, one.want)
		}
	}
}
