package sql

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// This file implements the part of SQLite's file format (https://sqlite.org/fileformat2.html) that shows which bytes of a page are
// unused.
//
// A file is pages of one size. A page of a tree, of a table or an index, looks like this:
//
//	header    kind (1), first free block (2), number of cells (2), where the content begins (2), ...
//	pointers  2 bytes for each cell: where it is
//	          a hole, up to where the content begins
//	content   cells and free blocks in any order; a free block is a hole behind its first 4 bytes
//
// A cell is a row, or a key with the page below it. The bytes of a cell that do not fit into the page are in a chain of overflow
// pages, each of which begins with the number of the next page. Pages that belong to no tree are in a list of trunk pages, each of
// which lists some free pages.

// filePages is what is known about the pages of one file.
type filePages struct {
	pageCount      int64 // how many the file has
	usableBytes    int   // bytes of a page that SQLite uses
	hasPointerMaps bool  // some pages are pointer maps, which auto_vacuum needs; this program makes no such file

	freeListDamaged               bool           // the list of free pages is not as it should be
	freePagesExpected             int64          // pages that the list should have
	freePagesListed               int64          // pages that it has
	trunkPages                    map[int64]bool // pages that list the free pages
	rangeFirstPage, rangeLastPage int64          // the range of pages that freePages is about
	freePages                     map[int64]bool // free pages in that range
}

// maxFilePages is 128 GiB in pages of 4 KiB. In a smaller file the first byte of a page tells pages of trees from overflow pages:
// an overflow page begins with a page number, and the first byte of that number is then below that of any tree page.
const maxFilePages = 1 << 25

// isUnderstood reports whether the pages of the file are understood; otherwise no page of the file may be changed. It returns false
// until readFileHeader has read the first page.
func (f *filePages) isUnderstood() bool {
	return f.usableBytes > 0 && !f.hasPointerMaps && !f.freeListDamaged && f.pageCount < maxFilePages
}

// readFileHeader reads the first page, and returns the first page of the list of free pages; 0: there is none.
func (f *filePages) readFileHeader(data []byte) (list int64) {
	// The offsets are those of the file format: 20 the reserved bytes of a page, 32 and 36 the list of free pages and
	// its length, 52 the greatest root with auto_vacuum.
	f.usableBytes = len(data) - int(data[20])
	f.hasPointerMaps = number32(data[52:]) != 0
	f.trunkPages, f.freePages = map[int64]bool{}, map[int64]bool{}
	f.freePagesExpected = number32(data[36:])
	return number32(data[32:])
}

// readFreeListPage reads a page of the list of free pages, and returns the next one; 0: it was the last.
func (f *filePages) readFreeListPage(number int64, data []byte) (next int64) {
	f.trunkPages[number] = true
	f.freePagesListed++
	// A page of the list has the number of the next one, how many free pages it lists, and their numbers.
	count := number32(data[4:])
	if count > int64(f.usableBytes)/4-2 {
		f.freeListDamaged = true
		return 0
	}
	for i := range count {
		free := number32(data[8+4*i:])
		f.freePagesListed++
		f.freeListDamaged = f.freeListDamaged || free < 2 || free > f.pageCount || f.freePages[free]
		if free >= f.rangeFirstPage && free <= f.rangeLastPage {
			f.freePages[free] = true
		}
	}
	// A trunk that comes twice is a ring, which would be walked for ever.
	if next = number32(data); f.trunkPages[next] || next > f.pageCount {
		f.freeListDamaged = true
		return 0
	}
	return next
}

// unusedRange is an unused part of a page: the bytes from offset from to offset to, which is not included.
type unusedRange struct{ from, to int }

// overflowChain is the rest of a row that does not fit into its page: the next overflow page, and how many bytes of the row are
// in that page and in those behind it.
type overflowChain struct {
	rowPage   int64 // the page of the row
	nextPage  int64 // the next overflow page; 0: there is none
	bytesLeft int   // bytes of the row in that page and in those behind it
}

// follow reads the next overflow page of a chain, and returns the rest of the chain. After the last page the rest has no next
// page, and the unused part of the last page is a hole.
func (c overflowChain) follow(data []byte, usable int) (after overflowChain, holes []unusedRange) {
	if c.bytesLeft > usable-4 {
		return overflowChain{c.rowPage, number32(data), c.bytesLeft - (usable - 4)}, nil
	}
	if number32(data) != 0 { // not the last page of a chain
		return overflowChain{}, nil
	}
	return overflowChain{}, []unusedRange{{4 + c.bytesLeft, usable}}
}

// The kinds of pages of trees, by their first byte.
const (
	interiorIndexPage = 2
	interiorTablePage = 5
	leafIndexPage     = 10
	leafTablePage     = 13
)

// unusedRanges finds the holes of a page, and the chains that begin in it. A malformed page has none: if two of its cells or free
// blocks overlap, or if one lies outside of the content, the page is not changed.
func (f *filePages) unusedRanges(number int64, data []byte) ([]unusedRange, []overflowChain) {
	switch {
	case f.trunkPages[number]:
		if from := 8 + 4*number32(data[4:]); from <= int64(f.usableBytes) {
			return []unusedRange{{int(from), f.usableBytes}}, nil
		}
		return nil, nil
	case f.freePages[number]:
		return []unusedRange{{0, len(data)}}, nil
	}
	cells := 8
	switch data[0] {
	case interiorIndexPage, interiorTablePage:
		cells = 12
	case leafIndexPage, leafTablePage:
	default:
		return nil, nil // an overflow page, a page of the free list, or page 1, which has only the names of the tables
	}
	// The header has the first free block, the number of cells, and where the content begins; 0 means 65,536.
	block, count, content := number16(data[1:]), number16(data[3:]), number16(data[5:])
	if content == 0 {
		content = 1 << 16
	}
	end := cells + 2*count
	if end > content || content > f.usableBytes {
		return nil, nil
	}
	// The bytes between the pointers to the cells and the content are unused.
	holes := []unusedRange{{end, content}}
	// Each byte of the content is taken once. If two parts overlap the page is damaged, and is not changed.
	used := usedBytes{make([]bool, f.usableBytes), content}
	for block != 0 {
		if block < content || block+4 > f.usableBytes {
			return nil, nil
		}
		// A free block has the offset of the next one and its own size. The offsets rise; anything else is damage.
		next, size := number16(data[block:]), number16(data[block+2:])
		if size < 4 || block+size > f.usableBytes || next != 0 && next < block+size || !used.markUsed(block, block+size) {
			return nil, nil
		}
		holes = append(holes, unusedRange{block + 4, block + size})
		block = next
	}
	var chains []overflowChain
	for i := range count {
		at := number16(data[cells+2*i:])
		size, c := f.readCell(data, data[0], at)
		if size == 0 || !used.markUsed(at, at+size) {
			return nil, nil
		}
		if c.nextPage > 0 {
			c.rowPage = number
			chains = append(chains, c)
		}
	}
	return holes, chains
}

// usedBytes are the bytes of a page that belong to a row or a free block. Where two of these overlap the page is damaged.
type usedBytes struct {
	used         []bool // by the offset of the byte
	contentStart int    // where the first row or free block can begin
}

// markUsed marks the bytes from offset from to offset to, which is not included. It returns false if one of them is marked already, or
// lies before the content or behind the usable bytes.
func (b usedBytes) markUsed(from, to int) bool {
	if from < b.contentStart || to > len(b.used) || slices.Contains(b.used[from:to], true) {
		return false
	}
	for i := from; i < to; i++ {
		b.used[i] = true
	}
	return true
}

// readCell returns the number of bytes that a cell takes in its page, and the chain of the bytes that do not fit there. size is 0 if
// the cell is malformed.
func (f *filePages) readCell(data []byte, kind byte, at int) (size int, c overflowChain) {
	if at+4 > f.usableBytes {
		return 0, c
	}
	whole := data[at:f.usableBytes]
	rest, payload := whole, uint64(0)
	if kind == interiorIndexPage || kind == interiorTablePage {
		rest = rest[4:] // a page below
	}
	if kind != interiorTablePage {
		payload, rest = varint(rest)
	}
	if kind == leafTablePage || kind == interiorTablePage {
		_, rest = varint(rest) // the number of the row
	}
	if rest == nil || payload > 1<<31 {
		return 0, c
	}
	head := len(whole) - len(rest)
	// The format derives from the page size how much of a row stays in the page.
	most, least := (f.usableBytes-12)*64/255-23, (f.usableBytes-12)*32/255-23
	if kind == leafTablePage {
		most = f.usableBytes - 35
	}
	// It fits. A cell takes 4 bytes at least, so that it can become a free block.
	if payload <= uint64(most) {
		return max(4, head+int(payload)), c
	}
	local := least + (int(payload)-least)%(f.usableBytes-4)
	// The format cuts a row so that its last overflow page is full, unless more than most bytes would then stay here.
	if local > most {
		local = least
	}
	if local+4 > len(rest) {
		return 0, c
	}
	return head + local + 4, overflowChain{nextPage: number32(rest[local:]), bytesLeft: int(payload) - local}
}

// zeroRanges overwrites holes with zeros, and reports whether they had any other byte.
func zeroRanges(data []byte, holes []unusedRange) (changed bool) {
	for _, h := range holes {
		part := data[h.from:h.to]
		if len(bytes.TrimLeft(part, "\x00")) > 0 {
			clear(part)
			changed = true
		}
	}
	return changed
}

// varint reads a number in SQLite's variable-length encoding, and returns the bytes behind it: nil if the number is cut off.
func varint(data []byte) (value uint64, rest []byte) {
	for i := 0; i < 9 && i < len(data); i++ {
		if i == 8 {
			return value<<8 | uint64(data[i]), data[9:]
		}
		value = value<<7 | uint64(data[i]&0x7f)
		if data[i] < 0x80 {
			return value, data[i+1:]
		}
	}
	return 0, nil
}

// number16 and number32 read numbers of 2 and 4 bytes, the most significant first.
func number16(data []byte) int   { return int(binary.BigEndian.Uint16(data)) }
func number32(data []byte) int64 { return int64(binary.BigEndian.Uint32(data)) }
