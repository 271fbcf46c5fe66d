package node

// openFiles is the number of files that this process may open: Windows has no such limit.
func openFiles() (limit uint64, known bool) { return 0, false }
