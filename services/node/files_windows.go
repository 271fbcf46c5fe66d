package node

// openFilesLimit reports that nothing limits the files that this process may open: Windows has no such limit.
func openFilesLimit() (limit uint64, known bool) { return 0, false }
