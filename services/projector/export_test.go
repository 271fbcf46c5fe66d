package projector

// Tests outside of this package use the cleaner's turns: they need a world with a fan-out, which this package cannot import.
var (
	TakeCleanerTurn  = takeCleanerTurn
	LeaveCleanerTurn = leaveCleanerTurn
)

// QueueInboxRefills queues a refill of the inbox for every user seen since a time.
var QueueInboxRefills = queueInboxRefills
