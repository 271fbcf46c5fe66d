package services

// CategoryModes are the modes of categories that a user chose, by the name of each. Those that are not listed count by their
// definition.
type CategoryModes struct {
	Version uint64 // rises with every change; 0 is before the first
	Of      map[Category]CategoryMode
}

// Over is the mode of a category for the user, whose definition has the usual mode.
func (m CategoryModes) Over(category Category, usual CategoryMode) CategoryMode {
	if chosen, some := m.Of[category]; some {
		return usual.Chosen(chosen)
	}
	return usual
}
