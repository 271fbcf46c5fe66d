package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// operation is one ready-made operation: a tab of GraphiQL, which is titled by the operation's name.
type operation struct {
	Query     string `json:"query"`
	Variables string `json:"variables,omitempty"` // JSON, as it stands in the editor
}

// readOperations reads operations/*.graphql in the order of their names, which begin with a number, each with its
// variables from the .json of the same name, if there is one.
func readOperations(files fs.FS) ([]operation, error) {
	names, err := fs.Glob(files, "operations/*.graphql")
	if err != nil {
		return nil, err
	}
	operations := make([]operation, 0, len(names))
	for _, name := range names {
		query, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		variables, err := fs.ReadFile(files, strings.TrimSuffix(name, path.Ext(name))+".json")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if len(variables) > 0 && !json.Valid(variables) {
			return nil, fmt.Errorf("the variables of %s are not JSON", name)
		}
		operations = append(operations, operation{
			Query:     strings.TrimSpace(string(query)),
			Variables: strings.TrimSpace(string(variables)),
		})
	}
	return operations, nil
}

// operationsJSON is the list of ready-made operations as the page takes it.
func operationsJSON(files fs.FS) ([]byte, error) {
	operations, err := readOperations(files)
	if err != nil {
		return nil, err
	}
	return json.Marshal(operations)
}
