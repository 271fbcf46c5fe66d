package sqltest

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// A statement counts as a round trip, and a ping does not.
func TestPingsAreNoRoundTrips(t *testing.T) {
	url, trips := CountRoundTrips(t, Postgres(t))
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	trips.TakeRoundTrips()
	trips.TakeStatements()
	for want := range 3 {
		for range want {
			if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took, ran := trips.TakeRoundTrips(), trips.TakeStatements(); took != want || ran != want {
			t.Errorf("%d statements and a ping count as %d round trips with %d statements", want, took, ran)
		}
	}
}
