package sql_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// brokenFile is a file that a test damages.
type brokenFile struct {
	*testing.T
	path string
}

// pageSize is SQLite's default, which the program keeps.
const pageSize = 4096

// newBrokenFile makes a file with a table whose leaves have five rows, a table whose rows have two overflow pages each, and free
// pages.
func newBrokenFile(t *testing.T) brokenFile {
	f := brokenFile{t, filepath.Join(t.TempDir(), "x.db")}
	f.withDatabase(func(db *sql.DB) {
		texts := []string{`CREATE TABLE short (id INTEGER PRIMARY KEY, body BLOB)`, `CREATE TABLE long (id INTEGER PRIMARY KEY, body BLOB)`}
		for i := range 150 {
			texts = append(texts, fmt.Sprintf(`INSERT INTO short VALUES (%d, randomblob(700))`, i), fmt.Sprintf(`INSERT INTO long VALUES (%d, randomblob(8376))`, i))
		}
		err := db.Write(t.Context(), func(tx *sql.Tx) error {
			for _, text := range append(texts, `DELETE FROM long WHERE id > 20`) {
				if _, err := sqltest.QueryLines(t.Context(), tx, text); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	return f
}

// withDatabase opens the file as a database for do, and closes it.
func (f brokenFile) withDatabase(do func(db *sql.DB)) {
	f.Helper()
	db, err := sql.Open(f.Context(), sql.Config{URL: "sqlite:" + f.path})
	if err != nil {
		f.Fatal(err)
	}
	do(db)
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
}

// changeBytes lets do change the bytes of the closed file.
func (f brokenFile) changeBytes(do func(data []byte)) {
	f.Helper()
	data, err := os.ReadFile(f.path)
	if err != nil {
		f.Fatal(err)
	}
	do(data)
	if err := os.WriteFile(f.path, data, 0o600); err != nil {
		f.Fatal(err)
	}
}

// page returns the page with a number, which begins at 1.
func page(data []byte, number uint32) []byte { return data[(number-1)*pageSize : number*pageSize] }

// fullLeafNumbers are the numbers of the leaves with five rows.
func fullLeafNumbers(data []byte) (leaves []uint32) {
	for number := uint32(2); number <= uint32(len(data)/pageSize); number++ {
		if leaf := page(data, number); leaf[0] == 13 && leaf[3] == 0 && leaf[4] == 5 {
			leaves = append(leaves, number)
		}
	}
	return leaves
}

// firstFreeListPage is the first page that lists free pages, and how many it lists.
func firstFreeListPage(data []byte) (list []byte, count uint32) {
	list = page(data, binary.BigEndian.Uint32(data[32:]))
	return list, binary.BigEndian.Uint32(list[4:])
}

// firstOverflowPage is the first of the overflow pages of a row that has two of them.
func firstOverflowPage(t *testing.T, data []byte) []byte {
	t.Helper()
	for number := uint32(2); number <= uint32(len(data)/pageSize); number++ {
		leaf := page(data, number)
		if leaf[0] != 13 || leaf[3] != 0 || leaf[4] == 0 || leaf[4] > 8 {
			continue
		}
		cell := int(binary.BigEndian.Uint16(leaf[8:]))
		const head, local = 3, 489 // of a payload between 8,192 and 16,383 bytes, in a row with a number below 128
		if size := int(leaf[cell]&0x7f)<<7 | int(leaf[cell+1]); size < 8192 || cell+head+local+4 > pageSize {
			continue
		}
		return page(data, binary.BigEndian.Uint32(leaf[cell+head+local:]))
	}
	t.Fatal("no row has overflow pages")
	return nil
}

// fileDamages are kinds of damage to a file, and whether a scrub refuses the whole file.
var fileDamages = map[string]struct {
	do      func(t *testing.T, data []byte) // makes the damage
	refused bool                            // Scrub refuses the whole file
}{
	"a count of free pages beyond the page, before what an older list left there": {func(_ *testing.T, data []byte) {
		list, count := firstFreeListPage(data)
		binary.BigEndian.PutUint32(list[8+4*count:], fullLeafNumbers(data)[0])
		binary.BigEndian.PutUint32(list[4:], 1<<20)
	}, true},
	"a list with one page more than the file counts": {func(_ *testing.T, data []byte) {
		list, count := firstFreeListPage(data)
		binary.BigEndian.PutUint32(list[8+4*count:], fullLeafNumbers(data)[0])
		binary.BigEndian.PutUint32(list[4:], count+1)
	}, true},
	"a free page that is listed twice": {func(_ *testing.T, data []byte) {
		list, _ := firstFreeListPage(data)
		copy(list[12:16], list[8:12])
	}, true},
	"a free page beyond the file": {func(_ *testing.T, data []byte) {
		list, _ := firstFreeListPage(data)
		binary.BigEndian.PutUint32(list[8:], uint32(len(data)/pageSize+1))
	}, true},
	"an overflow page that leads to a leaf": {func(t *testing.T, data []byte) {
		binary.BigEndian.PutUint32(firstOverflowPage(t, data), fullLeafNumbers(data)[0])
	}, false},
	"a free block within a row": {func(_ *testing.T, data []byte) {
		leaf := page(data, fullLeafNumbers(data)[0])
		within := binary.BigEndian.Uint16(leaf[8:]) + 300
		binary.BigEndian.PutUint16(leaf[within:], 0)     // no next block
		binary.BigEndian.PutUint16(leaf[within+2:], 200) // bytes
		binary.BigEndian.PutUint16(leaf[1:], within)
	}, false},
	"a row before the content": {func(_ *testing.T, data []byte) {
		leaf := page(data, fullLeafNumbers(data)[0])
		content := binary.BigEndian.Uint16(leaf[5:])
		binary.BigEndian.PutUint16(leaf[5:], content+704)
	}, false},
}

// FindDamage reports a damaged file. If the file is scrubbed all the same, nothing that can still be read is overwritten.
func TestADamagedFileIsNotScrubbed(t *testing.T) {
	for name, c := range fileDamages {
		t.Run(name, func(t *testing.T) {
			f := newBrokenFile(t)
			var sound, before, after []string
			rows := func(db *sql.DB) []string {
				lines, err := sqltest.QueryLines(t.Context(), db, `SELECT id, hex(body) FROM short ORDER BY id`)
				if err != nil {
					t.Fatal(err)
				}
				return lines
			}
			f.withDatabase(func(db *sql.DB) {
				sound = rows(db)
				if damage, err := db.FindDamage(t.Context()); damage != "" || err != nil {
					t.Errorf("a sound file: %q, %v", damage, err)
				}
			})
			f.changeBytes(func(data []byte) { c.do(t, data) })
			var leaf []byte
			f.changeBytes(func(data []byte) { leaf = slices.Clone(page(data, fullLeafNumbers(data)[0])) })
			f.withDatabase(func(db *sql.DB) {
				if damage, err := db.FindDamage(t.Context()); damage == "" || err != nil {
					t.Errorf("the damage is not found: %q, %v", damage, err)
				}
				before = rows(db)
				var err error
				for part := (sql.ScrubbedPart{More: true}); part.More && err == nil; {
					part, err = db.Scrub(t.Context(), part.NextAfterPage)
				}
				if errors.Is(err, sql.ErrUnknownPages) != c.refused || err != nil && !c.refused {
					t.Errorf("the scrub: %v", err)
				}
				after = rows(db)
			})
			if len(before) != len(sound) || !slices.Equal(before, after) {
				t.Errorf("of %d rows %d were there before the scrub, and %d after", len(sound), len(before), len(after))
			}
			f.changeBytes(func(data []byte) {
				if !slices.ContainsFunc(fullLeafNumbers(data), func(number uint32) bool { return slices.Equal(page(data, number), leaf) }) {
					t.Error("a leaf has changed")
				}
			})
		})
	}
}
