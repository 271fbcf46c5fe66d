package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// menuOperation is one ready-made operation: a line of GraphiQL's menu and, once opened, a tab, titled by the operation's name.
// Tests execute every operation. The page's script makes the menu and the tabs from the operations, which it reads by the
// JSON names below.
type menuOperation struct {
	Slug      string `json:"slug"`                // the name of the file without its number, as my-badges
	Group     string `json:"group"`               // the capability it shows, under which the menu lists it
	Query     string `json:"query"`               // the text of the operation
	Variables string `json:"variables,omitempty"` // JSON, as the editor shows it; a text such as "IN A MONTH" is replaced by a time
}

// readOperations reads operations/*.graphql in the order of their names, which begin with a number, each with its variables
// from the .json of the same name, if there is one. operations/groups.json lists the slugs of each group. With a mistake in a
// file no handler starts, so tests find it before a release.
func readOperations(files fs.FS) ([]menuOperation, error) {
	names, err := fs.Glob(files, "operations/*.graphql")
	if err != nil {
		return nil, err
	}
	groups, err := readOperationGroups(files)
	if err != nil {
		return nil, err
	}
	operations := make([]menuOperation, 0, len(names))
	for _, name := range names {
		// The number orders the menu. Links and groups use the slug.
		_, slug, _ := strings.Cut(strings.TrimSuffix(path.Base(name), path.Ext(name)), "-")
		// An operation without a group would be in no menu.
		if groups[slug] == "" {
			return nil, fmt.Errorf("operations/groups.json has no group for %s", name)
		}
		query, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		// Most operations have no variables, and so no file of variables.
		variables, err := fs.ReadFile(files, strings.TrimSuffix(name, path.Ext(name))+".json")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		// The editor would show the fault only when somebody runs the operation.
		if len(variables) > 0 && !json.Valid(variables) {
			return nil, fmt.Errorf("the variables of %s are not JSON", name)
		}
		operations = append(operations, menuOperation{
			Slug:      slug,
			Group:     groups[slug],
			Query:     strings.TrimSpace(string(query)),
			Variables: strings.TrimSpace(string(variables)),
		})
	}
	return operations, nil
}

// readOperationGroups returns the group of each slug; nil without the file. The page decides the order of the groups in the menu.
func readOperationGroups(files fs.FS) (map[string]string, error) {
	text, err := fs.ReadFile(files, "operations/groups.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var slugs map[string][]string
	if err := json.Unmarshal(text, &slugs); err != nil {
		return nil, fmt.Errorf("operations/groups.json: %w", err)
	}
	groups := make(map[string]string)
	for group, members := range slugs {
		for _, slug := range members {
			// The order of a map is random, so without this check each start could choose another of the two groups.
			if groups[slug] != "" {
				return nil, fmt.Errorf("operations/groups.json has two groups for %s", slug)
			}
			groups[slug] = group
		}
	}
	return groups, nil
}

// operationsJSON returns the list of ready-made operations in the form that the page reads. It is one file, because the menu
// needs all of them at once.
func operationsJSON(files fs.FS) ([]byte, error) {
	operations, err := readOperations(files)
	if err != nil {
		return nil, err
	}
	return json.Marshal(operations)
}
