package engines

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// childTaskVariable is the environment variable that makes this test binary another process of Tidings, which writes until it is
// killed or only opens the database. Its value is the task ("write" or "open") and the database's URL.
const childTaskVariable = "ENGINES_TEST_CHILD"

func TestMain(m *testing.M) {
	if task, url, isChild := strings.Cut(os.Getenv(childTaskVariable), " "); isChild {
		if err := doChildTask(task, url); err != nil {
			fmt.Println(services.CodeOf(err), err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// doChildTask does the task of childTaskVariable. If it writes, it prints the ID of each post after its commit, until it is killed.
func doChildTask(task, url string) error {
	s, err := sql.Open(context.Background(), sql.Config{URL: url})
	if err != nil {
		return err
	}
	if task == "open" {
		return s.Close()
	}
	acks := make(chan services.PostID)
	for writer := range services.PostID(8) {
		go func() {
			for n := services.PostID(1); ; n++ {
				id := n*8 + writer
				err := s.Write(context.Background(), func(tx *sql.Tx) error {
					if err := putPost(context.Background(), tx, 1, id, "b"); err != nil {
						return err
					}
					return jobs.Enqueue(context.Background(), tx, jobs.NewJob{Kind: "post", Key: id.String()})
				})
				if err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
				acks <- id
			}
		}()
	}
	for id := range acks {
		fmt.Println(id) // one write to the pipe, so every ID that the parent reads was acknowledged
	}
	return nil
}

// startChild runs this binary as another process, which does the task. It returns the process and its output.
func startChild(t *testing.T, task, url string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childTaskVariable+"="+task+" "+url)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

// readAcksAndKill reads the child's lines, kills the child after killAfter lines, and returns the IDs of all whole lines.
func readAcksAndKill(t *testing.T, cmd *exec.Cmd, out *bufio.Reader, killAfter int) []services.PostID {
	t.Helper()
	var acks []services.PostID
	for {
		line, err := out.ReadString('\n')
		if err == io.EOF {
			return acks // a truncated line is not an acknowledgement
		}
		if err != nil {
			t.Fatal(err)
		}
		id, err := services.ParseSortableID(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("the child says %q", line)
		}
		acks = append(acks, services.PostID(id))
		if len(acks) == killAfter {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
