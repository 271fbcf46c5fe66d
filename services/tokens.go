package services

import "strconv"

// AnyGen is the generation of a mark that is made without a list: it marks everything.
const AnyGen = uint64(1<<63 - 1)

// ReadToken prints the generation of a list: a mark with the token skips items that were marked unread since.
func ReadToken(gen uint64) string { return "g" + strconv.FormatUint(gen, 10) }

// ParseReadToken parses the output of ReadToken; "" is AnyGen.
func ParseReadToken(text string) (gen uint64, err error) {
	if text == "" {
		return AnyGen, nil
	}
	gen, err = strconv.ParseUint(text[1:], 10, 62)
	if err != nil || ReadToken(gen) != text {
		return 0, Errorf(Invalid, "readToken: %s is not the readToken of a list", Quote(text))
	}
	return gen, nil
}
