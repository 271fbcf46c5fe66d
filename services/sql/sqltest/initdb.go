package sqltest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// initdbArguments make the data of a server that trusts everybody who can open its socket.
var initdbArguments = []string{"-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"}

// makeDataFolder makes the data of a new server: a copy of the data that the first server of this machine was made with. initdb
// takes eight times the processor time of a copy, and nearly every test binary has a server.
func (s *Server) makeDataFolder() error {
	data := filepath.Join(s.dir, "data")
	kept, err := cachedDataFolder(s.binFolder)
	if err != nil { // no home folder, for instance
		return s.runInitdb(data)
	}
	if _, err := os.Stat(kept); errors.Is(err, fs.ErrNotExist) {
		if err := s.cacheDataFolder(kept); err != nil {
			return err
		}
	}
	if err := os.CopyFS(data, os.DirFS(kept)); err != nil {
		return fmt.Errorf("sqltest: copy the data of a new server: %w", err)
	}
	return s.chownToAccount(data)
}

// cachedDataFolder is the folder in the user's cache that has the data of a new server, or will have it: one for each version of
// PostgreSQL.
func cachedDataFolder(bin string) (folder string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	initdb, err := os.Stat(filepath.Join(bin, "initdb"))
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Append(nil, bin, initdb.Size(), initdb.ModTime().UnixNano(), initdbArguments))
	return filepath.Join(cache, "tidings-tests", fmt.Sprintf("postgres-%x", key[:8])), nil
}

// cacheDataFolder makes the data of a new server and keeps a copy. Test binaries may do so at once, and machines crash: the folder
// gets its name when it is whole and on the disk.
func (s *Server) cacheDataFolder(kept string) error {
	made := filepath.Join(s.dir, "kept")
	if err := s.runInitdb(made); err != nil {
		return err
	}
	defer os.RemoveAll(made)
	parent := filepath.Dir(kept)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	whole, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(whole) // nothing is there once it has its name
	if err := os.CopyFS(whole, os.DirFS(made)); err != nil {
		return fmt.Errorf("sqltest: keep the data of a new server: %w", err)
	}
	if err := filepath.WalkDir(whole, syncFile); err != nil {
		return err
	}
	if err := os.Rename(whole, kept); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// syncFile is a step of a walk, which writes a file or a folder to the disk.
func syncFile(path string, _ fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// runInitdb makes the data of a new server by initdb, as the server's account.
func (s *Server) runInitdb(data string) error {
	initdb := s.command(filepath.Join(s.binFolder, "initdb"), append([]string{"-D", data, "--no-sync"}, initdbArguments...)...)
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("sqltest: initdb: %w\n%s", err, out)
	}
	return nil
}

// chownToAccount gives a folder to the server's account with all that it has. PostgreSQL takes only a folder that nobody else can
// read.
func (s *Server) chownToAccount(folder string) error {
	return errors.Join(os.Chmod(folder, 0o700), filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || s.account == nil {
			return err
		}
		return os.Chown(path, int(s.account.Uid), int(s.account.Gid))
	}))
}
