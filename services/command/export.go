package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"tidings/services"
	"tidings/services/export"
	"tidings/services/node"
	"tidings/services/people"
)

// runExport does "tidings export": the lines go to out or into a file. The error is the reason of a failure. It needs neither
// Redis nor a node, because SQL has everything. It only reads, one kind of lines after the other, so on PostgreSQL an export of hours
// holds up no node.
func runExport(ctx context.Context, command Command, out io.Writer) (err error) {
	db, _, err := openExisting(ctx, command.Config.DatabaseURL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	key := command.Export.User
	ids, err := people.IDs(ctx, db, []string{key})
	if err != nil {
		return err
	}
	user, known := ids[key]
	if !known {
		return services.Errorf(services.NotFound, "there is no user %s", services.Quote(key))
	}
	// Many lines go to out in one write. Lines written before an error stay written, so the error says that the export is
	// incomplete.
	write := func(out io.Writer) error {
		// Most lines are short, and an export may have millions: without the buffer each would be a write of its own.
		buffered := bufio.NewWriterSize(out, 64<<10)
		err := export.Write(ctx, db, user, node.AllExportKinds, func(line []byte) error {
			_, err := buffered.Write(line)
			return err
		})
		if err == nil {
			err = buffered.Flush()
		}
		return err
	}
	// Output in a pipe cannot be taken back: its reader learns from the exit code whether the export is complete.
	if command.Export.Out == "" {
		if err := write(out); err != nil {
			return fmt.Errorf("the export is incomplete: %w", err)
		}
		return nil
	}
	return writeFileAtomically(command.Export.Out, write)
}

// writeFileAtomically writes a file under another name, and renames it once it is complete and on disk: an earlier file of the name
// stays until then. Only its owner can read it. The other name is in the same folder, because a rename works only within one
// file system. This is needed because a truncated file looks like the whole export of a user with less data.
func writeFileAtomically(path string, write func(io.Writer) error) (err error) {
	// A rename would replace a pipe or a device by a file, and fail for a folder.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return services.Errorf(services.Invalid, "--out %s: it exists and is not a file", path)
	}
	// CreateTemp makes a file of mode 0600, with a name that two exports at a time do not share.
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-*")
	if err != nil {
		return fmt.Errorf("--out %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name()) // the export has failed already
		}
	}()
	// The file is synced before the rename: after a crash the name could otherwise be that of an empty file.
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	// The file is closed also after an error, because some systems cannot remove an open file.
	if fault := file.Close(); err == nil {
		err = fault
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("--out %s: the file was not written: %w", path, err)
	}
	return nil
}
