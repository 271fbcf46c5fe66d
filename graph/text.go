package graph

// AppendText writes a string as the executor does, byte for byte: a test compares both. It does not use encoding/json, which
// escapes <, > and &: the executor does not.
func AppendText(to []byte, text string) []byte {
	return append(appendEscaped(append(to, '"'), text), '"')
}

// appendEscaped escapes the characters that JSON requires to be escaped and, like the executor, no others. Invalid UTF-8 stays as it
// is.
func appendEscaped(to []byte, text string) []byte {
	const hex = "0123456789ABCDEF"
	// Runs without a special character are copied at once.
	start := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		to = append(to, text[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			to = append(to, '\\', c)
		case '\n':
			to = append(to, '\\', 'n')
		case '\r':
			to = append(to, '\\', 'r')
		case '\t':
			to = append(to, '\\', 't')
		// These are the other control characters. JSON requires no other escapes.
		default:
			to = append(to, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(to, text[start:]...)
}
