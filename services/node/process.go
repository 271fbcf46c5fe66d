package node

import "runtime"

// spareThreads is how many threads run Go code beyond one for each processor.
const spareThreads = 4

// AddSpareThreads adds the spare threads, unless GOMAXPROCS is set. Go's default is one thread for each processor. That is too few
// because SQLite computes inside this process, and Go takes a goroutine that computes off its thread only after 10 ms. When writes
// hold all threads, a badge query waits that long at each of its steps. With spare threads the kernel divides the processors, and
// it prefers a thread that has just woken up, such as the thread of a query. Beside a rush of likes on two processors the slowest
// hundredth of badge queries takes 7 to 18 ms with spare threads, and 12 to 60 ms without (measure it with go run ./bench --only
// recipient; GOMAXPROCS=2 turns the spare threads off).
func AddSpareThreads(env func(string) string) {
	if env("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareThreads)
	}
}
