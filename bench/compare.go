package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
)

// compareAnswers sends a query as each of the users with these keys to two servers. Different answers are an error, because a server
// that does less work would have an advantage.
func compareAnswers(ctx context.Context, ours, baseline *apiClient, query string, keys []string) error {
	for _, key := range keys {
		var a, b any
		if err := ours.doGraphQL(ctx, "dev:"+key, query, nil, &a); err != nil {
			return fmt.Errorf("user %s: %w", key, err)
		}
		if err := baseline.doGraphQL(ctx, "dev:"+key, query, nil, &b); err != nil {
			return fmt.Errorf("user %s: %w", key, err)
		}
		if !reflect.DeepEqual(a, b) {
			ourText, _ := json.Marshal(a) // it was just decoded from JSON, so it can be encoded
			baselineText, _ := json.Marshal(b)
			return fmt.Errorf("user %s gets different answers:\n%s %s\n%s %s", key, ours.url, ourText, baseline.url, baselineText)
		}
	}
	return nil
}
