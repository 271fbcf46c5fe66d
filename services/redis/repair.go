package redis

import "context"

// If another program has changed the type of a key, its data is lost. Read and Change empty the projection of such a key and try
// once more. The second attempt finds a missing projection, which its next reader rebuilds, and the rest of the batch succeeds.
// Pipeline and Run do not repair: the audit must be able to count such keys.

// SetEmptyKeysFunc sets the function that empties the projections to which keys of the wrong type belong. Call it before the first
// use of the Client. Without it each key is deleted alone.
func (c *Client) SetEmptyKeysFunc(empty func(ctx context.Context, keys []string) error) {
	c.emptyKeys = empty
}

// Read sends the commands that fill queues in one round trip and returns them in order, as Pipeline does, for keys of projections. If a
// key has the wrong type, its projection is emptied, and everything is read again.
func (c *Client) Read(ctx context.Context, fill func(p Pipeliner)) ([]Cmder, error) {
	commands, err := c.Pipeline(ctx, fill)
	var wrong []string
	// The first argument after the name is the key, in every command that is read here.
	for _, command := range commands {
		if IsWrongType(command.Err()) {
			wrong = append(wrong, command.Args()[1].(string))
		}
	}
	if len(wrong) == 0 {
		return commands, err
	}
	if err := c.emptyAll(ctx, wrong); err != nil {
		return nil, err
	}
	return c.Pipeline(ctx, fill)
}

// Change runs a script once for each call and returns a reply for every call, as Run does, for keys of projections. If calls met a key
// of the wrong type, its projection is emptied, and these calls are repeated.
func (c *Client) Change(ctx context.Context, s *Script, calls []ScriptCall) ([]Reply, error) {
	replies, err := c.Run(ctx, s, calls)
	if err != nil {
		return replies, err
	}
	var again []int
	var wrong []string
	var repeated []ScriptCall
	// Redis does not say which of a script's keys has the wrong type. All belong to one user, and the first names the user.
	for i, reply := range replies {
		if IsWrongType(reply.Err) {
			again, repeated, wrong = append(again, i), append(repeated, calls[i]), append(wrong, calls[i].Keys[0])
		}
	}
	if len(again) == 0 {
		return replies, nil
	}
	if err := c.emptyAll(ctx, wrong); err != nil {
		return replies, err
	}
	// Only the failed calls are repeated: the projections of the others may have changed since.
	repetitions, err := c.Run(ctx, s, repeated)
	for i, reply := range repetitions {
		replies[again[i]] = reply
	}
	return replies, err
}

// emptyAll empties the projections of the keys with the function of SetEmptyKeysFunc, or deletes the keys.
func (c *Client) emptyAll(ctx context.Context, keys []string) error {
	c.Log().Warn("keys in Redis have the wrong type: their projections are emptied and rebuilt", "keys", len(keys))
	if c.emptyKeys != nil {
		return c.emptyKeys(ctx, keys)
	}
	return c.Delete(ctx, keys...)
}

// Delete deletes keys of any type, one after the other: they may lie on several masters. The error is UNAVAILABLE.
func (c *Client) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := c.Commands().Del(ctx, key).Err(); err != nil {
			return MapError(err)
		}
	}
	return nil
}
