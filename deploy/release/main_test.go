package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// entries are the files that the tests pack into archives.
var entries = []archiveEntry{{"t/LICENSE", 0o644, []byte("free")}, {"t/tidings", 0o755, bytes.Repeat([]byte("program"), 10_000)}}

// The same files with the same time make the same bytes each time they are packed.
func TestArchivesAreReproducible(t *testing.T) {
	at := time.Unix(1_700_000_000, 0).UTC()
	for name, pack := range map[string]func([]archiveEntry, time.Time) ([]byte, error){"tar": makeTar, "zip": makeZip} {
		first, err := pack(entries, at)
		if err != nil {
			t.Fatal(err)
		}
		second, err := pack(entries, at)
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s: two archives differ: %v", name, err)
		}
		if later, err := pack(entries, at.Add(time.Hour)); err != nil || bytes.Equal(first, later) {
			t.Errorf("%s: the time of the commit is not in it: %v", name, err)
		}
	}
}

func TestArchivesHoldTheirFiles(t *testing.T) {
	at := time.Unix(1_700_000_000, 0).UTC()
	packed, err := makeTar(entries, at)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(plain)
	for _, want := range entries {
		header, err := archive.Next()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil || header.Name != want.name || os.FileMode(header.Mode) != want.mode || !header.ModTime.Equal(at) || header.Uname != "" || !bytes.Equal(text, want.content) {
			t.Errorf("tar: %+v, %v", header, err)
		}
	}
	if packed, err = makeZip(entries, at); err != nil {
		t.Fatal(err)
	}
	opened, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range entries {
		file, err := opened.Open(want.name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(file)
		if err != nil || !bytes.Equal(text, want.content) || opened.File[i].Mode() != want.mode {
			t.Errorf("zip: %s, %v, %v", want.name, opened.File[i].Mode(), err)
		}
	}
}

// A release has an archive for each usual system, on both usual processors.
func TestAReleaseIsForTheUsualSystems(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, processor := range []string{"amd64", "arm64"} {
			if want := (target{system, processor}); !slices.Contains(targets, want) {
				t.Errorf("there is no archive for %s", want)
			}
		}
	}
}

// Every file that an archive contains is in the repository.
func TestTheFilesOfAReleaseExist(t *testing.T) {
	t.Chdir("../..")
	for _, one := range targets {
		for inside, path := range one.sourcePathByName() {
			if text, err := os.ReadFile(path); err != nil || len(text) == 0 {
				t.Errorf("%s: %s: %v", one, inside, err)
			}
		}
		if _, unit := one.sourcePathByName()["tidings.service"]; unit != (one.system == "linux") {
			t.Errorf("%s: the systemd unit: %t", one, unit)
		}
	}
}

func TestAReleaseOfAWrongVersionOrPlatformIsRefused(t *testing.T) {
	t.Chdir("../..")
	for _, c := range []struct{ version, only, want string }{
		{"v1; rm", "", "is not a version"}, {"../v1", "", "is not a version"}, {"v1", "plan9/amd64", "linux/amd64"},
	} {
		if err := release(t.Context(), c.version, t.TempDir(), c.only); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
