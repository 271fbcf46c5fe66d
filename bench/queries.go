package main

const countFields = `{ value display inTotal precision asOf }`

// The operations that are measured. Every program gets the same text.
const (
	badgeQuery = `{ viewer { badges { version total ` + countFields + ` homeFeed ` + countFields +
		` notifications { newest total ` + countFields + ` like ` + countFields + ` } } } }`

	feedQuery = `{ viewer { homeFeed(first: 20) { edges { cursor node { id kind author { id key name avatarUrl } body publishedAt } }` +
		` pageInfo { hasNextPage hasPreviousPage startCursor endCursor } lastId end } } }`

	staticQuery = `{ __typename }`

	badgeSubscription = `subscription { badgesChanged { version total ` + countFields + ` homeFeed ` + countFields +
		` notifications { newest total ` + countFields + ` like ` + countFields + ` } } }`
)
