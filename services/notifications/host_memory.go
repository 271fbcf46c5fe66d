package notifications

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/sql"
)

// CategoryMemory is this node's cache of the categories of the host application. It is safe for concurrent use. The definitions are
// one immutable value, so that all of a badge is rendered by one version of them.
type CategoryMemory struct {
	db  *sql.DB
	log *changelog.Follower // nil: the cache follows no changelog
	// setDocumentFields gives the fields of the host categories to the reader of documents. It is nil if nobody reads documents.
	setDocumentFields func(*services.HostCategories)
	// current is nil until the first definition: a node without host categories renders without them. Its version only rises.
	current atomic.Pointer[services.HostCategories]
	// mu is held while current is compared and changed, so that setDocumentFields sees versions in their order.
	mu sync.Mutex
}

// newCategoryMemory makes an empty cache that follows the changelog. Before the cache shows new definitions, it calls install with
// them. Without a changelog, as in tests of one node, it follows nothing. Its entries in the changelog are of a shared kind: they
// concern everybody's badges, so the hub renders all badges that are watched.
func newCategoryMemory(db *sql.DB, log *changelog.Follower, install func(*services.HostCategories)) *CategoryMemory {
	m := &CategoryMemory{db: db, log: log, setDocumentFields: install}
	if log != nil {
		log.Register(changelog.Kind{Name: ChangelogKind, Load: m.load, ConcernsAllUsers: true})
		log.RegisterVersionPart(changelog.VersionPart{AddVersions: m.addVersions})
	}
	return m
}

// addVersions adds the version to the sums that versions of badges are made of: a new definition makes every user's badges newer.
func (m *CategoryMemory) addVersions(_ []services.UserID, sums []uint64) {
	learned := m.Current().VersionOrZero()
	for i := range sums {
		sums[i] += learned
	}
}

// Current returns the definitions that this node knows; nil before the first definition.
func (m *CategoryMemory) Current() *services.HostCategories {
	if m == nil {
		return nil
	}
	return m.current.Load()
}

// refresh makes this node see its own change at once, before the log brings it, and notifies the watchers. The answer to a
// command that changes a definition then shows the badges by the new definitions.
func (m *CategoryMemory) refresh(ctx context.Context) error {
	before := m.Current().VersionOrZero()
	if err := m.load(ctx); err != nil {
		return err
	}
	if m.log != nil && m.Current().VersionOrZero() != before {
		m.log.NotifySharedChange()
	}
	return nil
}

// load reads the definitions, and shows them if they are newer. Loads may overtake each other: the later version stays.
func (m *CategoryMemory) load(ctx context.Context) error {
	read, err := definitions(ctx, m.db)
	if err != nil {
		return fmt.Errorf("categories of the host: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.Current(); now == nil && read.Version == 0 || now != nil && read.Version <= now.Version {
		return nil
	}
	// The reader of documents must know the fields of these definitions before a badge is rendered with them.
	if m.setDocumentFields != nil {
		m.setDocumentFields(read)
	}
	m.current.Store(read)
	return nil
}

// definitionsFor returns the definitions. It reads them anew if one of the categories is unknown here, since another node may have
// defined it just now. A category that is unknown even then is being removed.
func (m *CategoryMemory) definitionsFor(ctx context.Context, categories []services.Category) (*services.HostCategories, error) {
	for _, category := range categories {
		if _, known := m.Current().Find(category); known || !category.HasHostCategoryForm() {
			continue
		}
		err := m.refresh(ctx)
		return m.Current(), err
	}
	return m.Current(), nil
}

// allCategories are the names of all categories, the host application's categories last. The caller must not change the list.
func (m *CategoryMemory) allCategories() []services.Category {
	hosts := m.Current().All()
	if len(hosts) == 0 {
		return services.Categories
	}
	// The list is cloned, because appending to the shared list could write into its array.
	return append(slices.Clone(services.Categories), hostCategoryNames(hosts)...)
}

// hostCategoryNames are the names of categories.
func hostCategoryNames(hosts []services.HostCategory) []services.Category {
	return services.Map(hosts, func(host services.HostCategory) services.Category { return host.Name })
}

// parseConfiguredCategories parses NAME and NAME=OPTION+OPTION items, or returns the reason why they are invalid. The options are
// the days of expiry or never, single, dot and apart. Without options a category is grouped, counts as a number in the total, and
// expires after services.MaxExpiryDays.
func parseConfiguredCategories(items []string) (list []services.HostCategory, reason string) {
	for _, item := range items {
		category, reason := parseConfiguredCategory(item)
		if reason != "" {
			return nil, reason
		}
		if slices.ContainsFunc(list, func(c services.HostCategory) bool { return c.Name == category.Name }) {
			return nil, string(category.Name) + " is named twice"
		}
		list = append(list, category)
	}
	if most := services.MaxHostCategories; len(list) > most {
		return nil, fmt.Sprintf("up to %d categories are allowed, got %d", most, len(list))
	}
	return list, ""
}

// parseConfiguredCategory parses one item. reason is "" if it is right.
func parseConfiguredCategory(item string) (category services.HostCategory, reason string) {
	name, options, given := strings.Cut(item, "=")
	// These are the defaults of an item without options.
	category = services.HostCategory{Name: services.Category(name), ExpiryDays: services.MaxExpiryDays, Grouped: true}
	if !category.Name.HasHostCategoryForm() {
		return category, services.Quote(name) + " is not a name: 1 to 32 of a-z, 0-9, '.', '_' and '-' are allowed, a letter first"
	}
	if !given {
		return category, ""
	}
	wrong := fmt.Sprintf("%s: after the = are options with a + between them: single, dot or apart, 1 to %d days of expiry or never", services.Quote(item), services.MaxExpiryDays)
	for option := range strings.SplitSeq(options, "+") {
		mode := category.DefaultMode
		switch option {
		case "single":
			category.Grouped = false
		case "dot":
			category.DefaultMode = services.CategoryDot
		case "apart":
			category.DefaultMode = services.CategoryOutsideTotal
		default:
			if category.ExpiryDays, reason = services.ParseExpiryDays(item, option); reason != "" {
				return category, wrong
			}
		}
		// dot and apart exclude each other.
		if mode != services.CategoryCounted && mode != category.DefaultMode {
			return category, wrong
		}
	}
	return category, ""
}
