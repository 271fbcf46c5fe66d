package devices

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/leases"
	"tidings/services/sql"
)

// leaseTable is the table of the lease. It has one row, because one node sends to all devices.
var leaseTable = leases.NewTable("devices", "device_readers")

var (
	// The lock makes an erasure of the user wait until the device is written, so that the erasure does not miss the device.
	lockUser = sql.NewStatement("hold a user's devices", `SELECT number FROM users WHERE number = $1 {for update}`)

	lockDevice = sql.NewStatement("lock a device", `SELECT user_number, vapid, name, silent, attempts FROM devices WHERE hash = $1 {for update}`)

	// A repeated registration changes only seen_at, by which the oldest devices of a user are found.
	touchDevice = sql.NewStatement("touch a device", `UPDATE devices SET seen_at = $2 WHERE hash = $1`)

	// A registration that changes something makes the row a new one. has, the version that the device has, is 0, so that the newest
	// badges are sent again. heard, up to which the user was alerted, is $12, so that older items do not alert. By registered_at an outcome
	// of the former device is recognized. due_at is now, so that the icon is right at once.
	putDevice = sql.NewStatement("put a device", `INSERT INTO devices (hash, user_number, endpoint, service, p256dh, auth, vapid, name, silent, registered_at, seen_at,
			has, heard, want, due_at, attempts, first_at, dead_at, delivered_at, error)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11, $12, $12, $10, 0, 0, 0, 0, '')
		ON CONFLICT (hash) DO UPDATE SET user_number = excluded.user_number, vapid = excluded.vapid, name = excluded.name, silent = excluded.silent, registered_at = excluded.registered_at, seen_at = excluded.seen_at,
			has = excluded.has, heard = excluded.heard, want = excluded.want, due_at = excluded.due_at, attempts = 0, first_at = 0, dead_at = 0, delivered_at = 0, error = ''`)

	// dropOldest keeps the $2 devices of a user that registered last, and drops the others. LIMIT is there because SQLite has no
	// OFFSET without it.
	dropOldest = sql.NewStatement("drop a user's oldest devices", `DELETE FROM devices WHERE hash IN (
		SELECT hash FROM devices WHERE user_number = $1 ORDER BY seen_at DESC, hash LIMIT 1000 OFFSET $2)`)

	// A browser that subscribed anew has other keys; the former ones are of no use.
	dropFormer = sql.NewStatement("drop a user's former devices of an endpoint", `DELETE FROM devices WHERE user_number = $1 AND endpoint = $2 AND hash <> $3`)

	dropDevice = sql.NewStatement("drop a device of a user", `DELETE FROM devices WHERE hash = $1 AND user_number = $2`)

	devicesOf = sql.NewStatement("devices of a user", `SELECT hash, name, endpoint, silent, registered_at, delivered_at, first_at, attempts, error
		FROM devices WHERE user_number = $1 ORDER BY seen_at DESC, hash`)

	// Every node runs this at intervals; it reads one row at most.
	anyDevice = sql.NewStatement("whether there is a device", `SELECT 1 FROM devices LIMIT 1`)

	// firstUsers is read when a node finds devices for the first time. There are few by then; laps of the stream find the users of
	// all later devices.
	firstUsers = sql.NewStatement("users of the first devices", `SELECT user_number FROM devices LIMIT 10000`)

	// If there is no row, another node has the lease.
	readStreamPosition = sql.NewStatement("how far devices have read", `SELECT read_to FROM device_readers WHERE name = 'devices' AND token = $1`)

	// Only the holder of the lease moves the position: a node that was paused beyond its lease finds the token of another node,
	// and changes no row.
	moveStreamPosition = sql.NewStatement("move the position of devices", `UPDATE device_readers SET read_to = $2 WHERE name = 'devices' AND token = $1`)

	// countSent adds to the counters of all messages, which are in the row of the lease.
	countSent = sql.NewStatement("count messages to devices", `UPDATE device_readers SET delivered = delivered + $2, failed = failed + $3, removed = removed + $4,
		error = CASE WHEN $5 = '' THEN error ELSE $5 END WHERE name = 'devices' AND token = $1`)

	// setWantedVersions gives devices a newer version to send, and makes them due.
	// A device that waits for a further attempt goes on waiting: its next message has the new change too. A device that was given
	// up is tried again, for another day. A device that waits until its user's socket is closed is due now, since the socket may
	// be closed by now. The last condition makes a repetition harmless.
	setWantedVersions = sql.NewStatement("devices that want a version", `UPDATE devices SET want = r.seq,
			due_at = CASE WHEN devices.due_at = 0 OR devices.attempts = 0 AND devices.due_at > $2 THEN $2 ELSE devices.due_at END,
			attempts = CASE WHEN devices.dead_at > 0 THEN 1 ELSE devices.attempts END, first_at = CASE WHEN devices.dead_at > 0 THEN $2 ELSE devices.first_at END, dead_at = 0
		FROM {rows $1 user_number BIGINT, seq BIGINT} AS r WHERE devices.user_number = r.user_number AND devices.want < r.seq`)

	// The index by due_at has only devices that are due or wait: the others, nearly all, cost nothing.
	dueDevices = sql.NewStatement("due devices", `SELECT `+deviceRowColumns+` FROM devices WHERE due_at > 0 AND due_at <= $1 AND NOT {in service $2 TEXT} ORDER BY due_at LIMIT $3`)

	// dueAmong lists the due devices of the given push services alone. It is used while the push services that have not accepted a message
	// yet have as many requests under way as all of them together may have. Only the others then get requests (pushServices.serviceFilter).
	dueAmong = sql.NewStatement("due devices of push services", `SELECT `+deviceRowColumns+` FROM devices WHERE due_at > 0 AND due_at <= $1 AND {in service $2 TEXT} ORDER BY due_at LIMIT $3`)

	// A change that came while the request was under way makes the device due again, unless an attempt is planned anyway. A device
	// that was registered again meanwhile has another registered_at: the outcome is of the former registration, and is dropped.
	recordDeviceOutcomes = sql.NewStatement("record what became of messages", `UPDATE devices SET has = r.has, heard = r.heard, attempts = r.attempts, first_at = r.first_at,
			due_at = CASE WHEN r.due_at = 0 AND devices.want > r.want THEN $2 ELSE r.due_at END,
			dead_at = CASE WHEN devices.want > r.want THEN 0 ELSE r.dead_at END,
			delivered_at = CASE WHEN r.delivered_at = 0 THEN devices.delivered_at ELSE r.delivered_at END, error = r.error
		FROM {rows $1 hash TEXT, registered_at BIGINT, want BIGINT, has BIGINT, heard BIGINT, attempts BIGINT, first_at BIGINT, due_at BIGINT, dead_at BIGINT, delivered_at BIGINT, error TEXT} AS r
		WHERE devices.hash = r.hash AND devices.registered_at = r.registered_at`)

	// Like recordDeviceOutcomes, this leaves a device alone that was registered again meanwhile.
	removeDevices = sql.NewStatement("remove devices that their push service does not know", `DELETE FROM devices
		WHERE (hash, registered_at) IN (SELECT r.hash, r.registered_at FROM {rows $1 hash TEXT, registered_at BIGINT} AS r)`)

	// The second and third count read only an index: of the devices that are due or wait, and of the devices that fail.
	countDevices = sql.NewStatement("count devices", `SELECT (SELECT count(*) FROM devices), (SELECT count(*) FROM devices WHERE due_at > 0),
		(SELECT count(*) FROM devices WHERE dead_at > 0 AND attempts > 0), (SELECT min(due_at) FROM devices WHERE due_at > 0),
		delivered, failed, removed, node, until_us >= {database clock}, error FROM device_readers WHERE name = 'devices'`)

	forgetDevices = sql.NewStatement("forget a user's devices", `DELETE FROM devices WHERE user_number = $1`)
)

// deviceRowColumns are the columns that readRows scans, in its order.
const deviceRowColumns = "hash, user_number, endpoint, service, p256dh, auth, vapid, silent, registered_at, has, heard, want, attempts, first_at"

// anyDevices reports whether there is a device.
func (s *Service) anyDevices(ctx context.Context) (bool, error) {
	var one int
	return s.db.One(ctx, anyDevice, nil, &one)
}

// List lists a user's devices, the last registered first.
func (s *Service) List(ctx context.Context, user services.UserID) (list []Device, err error) {
	list, _, err = s.devicesOf(ctx, s.db, user)
	return list, err
}

// devicesOf lists a user's devices, the last registered first, and the hash of each, by which its row is found.
func (s *Service) devicesOf(ctx context.Context, r sql.Reader, user services.UserID) (list []Device, hashes []string, err error) {
	err = r.Each(ctx, devicesOf, []any{user}, func(scan func(...any) error) error {
		var d Device
		var hash string
		var registered, delivered, first int64
		var attempts int
		if err := scan(&hash, &d.Name, &d.Endpoint, &d.Silent, &registered, &delivered, &first, &attempts, &d.Error); err != nil {
			return err
		}
		d.ID, d.RegisteredAt, d.DeliveredAt = idOf(user, hash), sql.FromMicrosOrZero(registered), sql.FromMicrosOrZero(delivered)
		if attempts > 0 {
			d.FailingSince = sql.FromMicrosOrZero(first)
		}
		list, hashes = append(list, d), append(hashes, hash)
		return nil
	})
	return list, hashes, err
}

// readRows lists devices to send to, by a statement with deviceRowColumns.
func readRows(ctx context.Context, db *sql.DB, st sql.Statement, args ...any) ([]deviceRow, error) {
	return sql.ReadRows(ctx, db, st, args, func(scan sql.Scan, r *deviceRow) error {
		var first int64
		err := scan(&r.hash, &r.user, &r.endpoint, &r.pushServiceHost, &r.p256dh, &r.auth, &r.vapidPublicKey, &r.silent, &r.registeredAt, &r.deliveredVersion, &r.alertedUpTo, &r.wantedVersion, &r.consecutiveFailures, &first)
		r.undeliveredSince = sql.FromMicrosOrZero(first)
		return err
	})
}

// Counts are the numbers of all devices, on all nodes, for metrics and the console. DeliveredMessages, FailedRequests and
// RemovedDevices are since the first device of the installation.
type Counts struct {
	Registered        int       // devices
	Waiting           int       // devices that are due, or tried again later
	Dead              int       // devices that were given up until their user's next change
	OldestDueAt       time.Time // when the first due device became due; zero if none is due now
	DeliveredMessages int       // messages that push services accepted
	FailedRequests    int       // requests that failed
	RemovedDevices    int       // devices that their push service did not know any more
	SenderNode        string    // the node that sends, or did last
	SomeNodeSends     bool      // a node sends
	LastError         string    // the last failure
}

// Counts counts all devices.
func (s *Service) Counts(ctx context.Context) (c Counts, err error) {
	var oldest sql.NullInt64
	_, err = s.db.One(ctx, countDevices, nil, &c.Registered, &c.Waiting, &c.Dead, &oldest, &c.DeliveredMessages, &c.FailedRequests, &c.RemovedDevices, &c.SenderNode, &c.SomeNodeSends, &c.LastError)
	if oldest.Valid && oldest.Int64 < s.db.Now().UnixMicro() {
		c.OldestDueAt = sql.FromMicros(oldest.Int64)
	}
	return c, err
}

// forget removes a user's devices, and returns how many. A registration that is under way finds no user any more: see register.
func forget(ctx context.Context, tx *sql.Tx, user services.UserID) (removed int, err error) {
	return tx.Run(ctx, forgetDevices, user)
}
