package route53

import (
	"cmp"
	"slices"
)

// listPoint is a position in the order of ListResourceRecordSets: by name with the labels reversed,
// then by type, then by set identifier, each in ASCII.
type listPoint struct{ order, typ, setID string }

func pointOf(s *recordSet) listPoint { return listPoint{nameOrder(s.Name), s.Type, s.SetID} }

func (p listPoint) compare(q listPoint) int {
	return cmp.Or(cmp.Compare(p.order, q.order), cmp.Compare(p.typ, q.typ), cmp.Compare(p.setID, q.setID))
}

// sortSets puts record sets in list order.
func sortSets(sets []recordSet) {
	points := make(map[setKey]listPoint, len(sets))
	for i := range sets {
		points[sets[i].key()] = pointOf(&sets[i])
	}
	slices.SortFunc(sets, func(a, b recordSet) int { return points[a.key()].compare(points[b.key()]) })
}

// pageSets returns at most limit of the sorted sets from the first one at or after start, and the
// first one of the next page, nil when there is none.
func pageSets(sets []recordSet, start listPoint, limit int) (page []recordSet, next *recordSet) {
	from, _ := slices.BinarySearchFunc(sets, start, func(s recordSet, p listPoint) int {
		return pointOf(&s).compare(p)
	})
	to := min(from+limit, len(sets))
	if to < len(sets) {
		next = &sets[to]
	}
	return sets[from:to], next
}
