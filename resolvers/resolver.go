package resolvers

// Resolver is the root of all resolvers.
type Resolver struct{}
