package house

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dockerInstruction is an instruction of a Dockerfile, such as FROM with the rest "golang:1.26 AS build".
type dockerInstruction struct{ name, rest string }

// parseDockerfile returns the instructions of a Dockerfile, without comments.
func parseDockerfile(text string) (list []dockerInstruction) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			name, rest, _ := strings.Cut(line, " ")
			list = append(list, dockerInstruction{name, strings.TrimSpace(rest)})
		}
	}
	return list
}

// dockerfileFaults returns the faults of a Dockerfile. The Dockerfile must build a static program with this version of Go and copy it
// into an empty image ("scratch").
func dockerfileFaults(text, goVersion string) (faults []string) {
	fault := func(format string, arguments ...any) { faults = append(faults, fmt.Sprintf(format, arguments...)) }
	stages, base, inImage := map[string]string{}, "", []string{}
	settings := map[string]string{}
	for _, i := range parseDockerfile(text) {
		words := strings.Fields(i.rest)
		switch i.name {
		case "FROM":
			base = words[0]
			if len(words) == 3 {
				stages[words[2]] = ""
			}
			if version, isGo := strings.CutPrefix(base, "golang:"); isGo && version != goVersion {
				fault("it is built by Go %s, and go.mod wants %s", version, goVersion)
			}
		case "RUN":
			if base == "scratch" {
				fault("the empty image has no shell for %s", i.rest)
			}
			stages["build"] += i.rest + "\n"
		case "COPY":
			if from, isStage := strings.CutPrefix(words[0], "--from="); isStage {
				made, known := stages[from]
				source := words[len(words)-2]
				if ofBase := strings.HasPrefix(source, "/etc/ssl/certs/"); !known || !ofBase && !regexp.MustCompile(`(mkdir|-o) `+source+`\b`).MatchString(made) {
					fault("nothing in the stage %s makes %s", from, source)
				}
				inImage = append(inImage, words[len(words)-1])
			}
		case "USER":
			if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(i.rest) {
				fault("USER %s: an empty image has no names, and the program no need of rights", i.rest)
			}
		case "ENV":
			for _, setting := range words {
				name, value, _ := strings.Cut(setting, "=")
				settings[name] = value
			}
		case "EXPOSE":
			for name, value := range settings {
				if port, isAddress := strings.CutPrefix(value, ":"); isAddress && !slices.Contains(words, port) {
					fault("%s=%s is not exposed", name, value)
				}
			}
		case "VOLUME":
			if !slices.Contains(inImage, i.rest) || settings["TIDINGS_DATA"] != i.rest {
				fault("the volume %s is not the folder of the data, or not the user's", i.rest)
			}
		case "ENTRYPOINT":
			var words []string
			if err := json.Unmarshal([]byte(i.rest), &words); err != nil || len(words) == 0 || !slices.Contains(inImage, words[0]) {
				fault("ENTRYPOINT %s: an empty image has no shell, and starts what was copied into it", i.rest)
			}
		case "WORKDIR":
		default:
			fault("there is no instruction %s", i.name)
		}
	}
	if base != "scratch" {
		fault("the image is %s, and not empty", base)
	}
	return faults
}

// The Dockerfile builds every file that it copies, its user has no rights, and its commands are valid for the Go version in
// go.mod.
func TestTheDockerfileIsConsistent(t *testing.T) {
	text := deployFiles(t)["Dockerfile"]
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readRepositoryFile(t, "go.mod"))[1]
	if faults := dockerfileFaults(text, goVersion); len(faults) > 0 {
		t.Errorf("the faults are %q", faults)
	}
	for injected, change := range map[string][2]string{
		"another Go":            {"golang:" + goVersion, "golang:1.2"},
		"a program of no build": {"-o /tidings", "-o /bin/tidings"},
		"a folder of no build":  {" && mkdir /data", ""},
		"a stage of no name":    {"--from=build /tidings", "--from=builder /tidings"},
		"root":                  {"USER 65532:65532", "USER root"},
		"a shell":               {`ENTRYPOINT ["/tidings"]`, "ENTRYPOINT /tidings"},
		"a hidden port":         {"EXPOSE 8080 9090", "EXPOSE 8080"},
		"a misspelled word":     {"EXPOSE", "EXPOSES"},
		"another folder":        {"VOLUME /data", "VOLUME /var"},
	} {
		wrong := strings.Replace(text, change[0], change[1], 1)
		if wrong == text || len(dockerfileFaults(wrong, goVersion)) == 0 {
			t.Errorf("%s is not found", injected)
		}
	}
	folder := t.TempDir()
	for _, i := range parseDockerfile(text) {
		for name := range strings.FieldsSeq(strings.TrimSuffix(i.rest, "./")) {
			if _, err := os.Stat(filepath.Join("../..", name)); i.name == "COPY" && !strings.HasPrefix(i.rest, "--from=") && err != nil {
				t.Errorf("COPY %s: %v", i.rest, err)
			}
		}
		if i.name != "RUN" {
			continue
		}
		// The build is only planned, because it would take minutes: go build -n checks its flags and its packages.
		command := regexp.MustCompile(`(mkdir|-o) /`).ReplaceAllString(i.rest, "$1 "+folder+"/")
		shell := exec.CommandContext(t.Context(), "/bin/sh", "-ec", `go() { [ "$1" = build ] || { command go "$@"; return; }; shift; command go build -n "$@"; }`+"\n"+command)
		shell.Dir = "../.."
		if said, err := shell.CombinedOutput(); err != nil {
			t.Errorf("RUN %s: %v: %.2000s", i.rest, err, said)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "data")); err != nil {
		t.Errorf("the commands were not run: %v", err)
	}
}
