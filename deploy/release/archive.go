package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"os"
	"time"
)

// archiveEntry is a file of an archive.
type archiveEntry struct {
	name    string
	mode    os.FileMode
	content []byte // the bytes of the file
}

// makeTar returns a compressed tar file of entries. It contains no user's name, and no time except at.
func makeTar(entries []archiveEntry, at time.Time) ([]byte, error) {
	var file bytes.Buffer
	// The header of gzip has a name and a time only if they are set, and they are not.
	compressed, err := gzip.NewWriterLevel(&file, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	// The caller has sorted the entries by name.
	for _, one := range entries {
		// USTAR has no fields for times in fractions or for users' names; owner and group are 0.
		header := &tar.Header{Name: one.name, Mode: int64(one.mode), Size: int64(len(one.content)), ModTime: at, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(one.content); err != nil {
			return nil, err
		}
	}
	// The tar file is closed first: Close writes its end into the compressed file.
	if err := archive.Close(); err != nil {
		return nil, err
	}
	err = compressed.Close()
	return file.Bytes(), err
}

// makeZip returns a ZIP file of entries, with no time except at.
func makeZip(entries []archiveEntry, at time.Time) ([]byte, error) {
	var file bytes.Buffer
	archive := zip.NewWriter(&file)
	for _, one := range entries {
		header := &zip.FileHeader{Name: one.name, Method: zip.Deflate, Modified: at}
		// A ZIP file keeps the mode of Unix too, so the program stays executable on systems that need that.
		header.SetMode(one.mode)
		writer, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := writer.Write(one.content); err != nil {
			return nil, err
		}
	}
	// Close writes the directory of the ZIP file, which is at its end.
	err := archive.Close()
	return file.Bytes(), err
}
