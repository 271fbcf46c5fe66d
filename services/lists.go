package services

// Map returns what of makes of each item of a list, in the order of the list.
func Map[T, V any](list []T, of func(item T) V) []V {
	mapped := make([]V, len(list))
	for i, item := range list {
		mapped[i] = of(item)
	}
	return mapped
}

// KeyBy returns the items of a list by their keys. Of two items with one key it keeps the later one.
func KeyBy[K comparable, T any](list []T, key func(item T) K) map[K]T {
	byKey := make(map[K]T, len(list))
	for _, item := range list {
		byKey[key(item)] = item
	}
	return byKey
}
