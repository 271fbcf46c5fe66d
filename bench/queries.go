package main

// countFields are the fields of a count that the operations select.
const countFields = `{ value display inTotal precision asOf }`

// The operations that are measured. Tidings and the baselines get the same text.
const (
	badgeQuery = `{ viewer { badges { version total ` + countFields + ` homeFeed ` + countFields +
		` notifications { newest total ` + countFields + ` like ` + countFields + ` } } } }`

	feedQuery = `{ viewer { homeFeed(first: 20) { edges { cursor node { id kind author { id key name avatarUrl } body publishedAt } }` +
		` pageInfo { hasNextPage hasPreviousPage startCursor endCursor } lastId end } } }`

	staticQuery = `{ __typename }` // asks for nothing that has to be read

	badgeSubscription = `subscription { badgesChanged { version total ` + countFields + ` homeFeed ` + countFields +
		` notifications { newest total ` + countFields + ` like ` + countFields + ` } } }`

	// everySourceFields selects the counts of all sources, and the dots.
	everySourceFields = `version total ` + countFields + ` homeFeed ` + countFields + ` notifications { newest total ` + countFields + ` like ` + countFields +
		` comment ` + countFields + ` mention ` + countFields + ` follow ` + countFields + ` } siteMessages { total ` + countFields + ` types { type count ` +
		countFields + ` } } announcements ` + countFields + ` conversations { total ` + countFields + ` mentions ` + countFields + ` } liveBoard ` + countFields + ` views ` + countFields + ` dots { name lit }`

	everySourceQuery = `{ viewer { badges { ` + everySourceFields + ` } } }`

	everySourceSubscription = `subscription { badgesChanged { ` + everySourceFields + ` } }`
)
