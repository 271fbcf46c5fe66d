package projector

// The cleaner's turns, for tests with a world that has a fan-out: these tests are outside of this package.
var (
	TakeCleanerTurn = takeCleanerTurn
	PassCleanerTurn = leaveCleanerTurn
)
