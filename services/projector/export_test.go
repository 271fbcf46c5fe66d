package projector

// The cleaner's turns, for tests that need a world with fan-out: these are outside of this package.
var (
	TakeCleanerTurn = takeCleanerTurn
	PassCleanerTurn = passCleanerTurn
)
