package services

// CategoryModes are the modes of categories that a user chose, by the name of each. A category that is not listed counts by its
// definition.
type CategoryModes struct {
	Version    uint64 // rises with every change; 0 is before the first
	ByCategory map[Category]CategoryMode
}

// EffectiveMode returns the mode in which a category counts for the user. usual is the mode of its definition, which applies if the
// user chose none. A number that the definition keeps out of the total stays out, even if the user chose COUNT: see
// CategoryMode.WithUserChoice.
func (m CategoryModes) EffectiveMode(category Category, usual CategoryMode) CategoryMode {
	if chosen, some := m.ByCategory[category]; some {
		return usual.WithUserChoice(chosen)
	}
	return usual
}
