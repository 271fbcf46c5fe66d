package node

// openFiles reports that nothing limits the files that this process may open: Windows has no such limit.
func openFiles() (limit uint64, known bool) { return 0, false }
