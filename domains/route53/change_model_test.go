package route53

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
)

// naive is change evaluation written as plainly as possible: a slice, applied change by change, and
// every rule as a search over all of it. It says whether the batch is good, and what it leaves.
func naive(sets []recordSet, batch []api.Change) ([]recordSet, bool) {
	at := func(sets []recordSet, k setKey) int {
		return slices.IndexFunc(sets, func(s recordSet) bool { return s.key() == k })
	}
	out := slices.Clone(sets)
	done := map[setKey]string{}
	for i := range batch {
		var f batchFaults
		c := decodeChange(&batch[i], &f)
		k := c.set.key()
		if f.any() || !strings.HasSuffix("."+k.name, "."+testZoneName) {
			return nil, false
		}
		if before, again := done[k]; again && !(before == actionDelete && c.action != actionDelete) {
			return nil, false
		}
		done[k] += c.action
		n := at(out, k)
		switch c.action {
		case actionCreate:
			if n >= 0 {
				return nil, false
			}
			out = append(out, c.set)
		case actionUpsert:
			if n >= 0 {
				out = slices.Delete(out, n, n+1)
			}
			out = append(out, c.set)
		case actionDelete:
			if n < 0 || fmt.Sprint(encodeSorted(out[n])) != fmt.Sprint(encodeSorted(c.set)) {
				return nil, false
			}
			out = slices.Delete(out, n, n+1)
		}
	}
	changed := func(s recordSet) bool { return done[s.key()] != "" }
	for _, s := range out {
		if changed(s) && !naiveGood(s, out) {
			return nil, false
		}
	}
	if at(out, setKey{testZoneName, typeSOA, ""}) < 0 || at(out, setKey{testZoneName, typeNS, ""}) < 0 {
		return nil, false
	}
	slices.SortFunc(out, func(a, b recordSet) int { return pointOf(&a).compare(pointOf(&b)) })
	return out, true
}

// encodeSorted renders a set with its values in order, for comparison.
func encodeSorted(s recordSet) string {
	s.Values = slices.Sorted(slices.Values(s.Values))
	ttl, weight, alias := "-", "-", "-"
	if s.TTL != nil {
		ttl = fmt.Sprint(*s.TTL)
	}
	if s.Weight != nil {
		weight = fmt.Sprint(*s.Weight)
	}
	if s.Alias != nil {
		alias = fmt.Sprint(*s.Alias)
	}
	return fmt.Sprint(s.Name, s.Type, s.SetID, ttl, s.Values, weight, s.MultiValue, alias)
}

// naiveGood checks one changed set against all others.
func naiveGood(s recordSet, all []recordSet) bool {
	if s.Type == typeCNAME && s.Name == testZoneName || (s.Type == typeSOA && s.Name != testZoneName) {
		return false
	}
	if (s.Type == typeSOA || s.Type == typeNS) && (s.SetID != "" || s.Alias != nil) {
		return false
	}
	if s.Type == typeCNAME && (s.MultiValue || len(s.Values) > 1) || s.Alias != nil && s.MultiValue {
		return false
	}
	if s.Type == typeSOA && len(s.Values) > 1 || s.Type == typeNS && strings.HasPrefix(s.Name, `\052`) {
		return false
	}
	for i, v := range s.Values {
		if _, p := rdata(s.Type, v); p != nil || slices.Contains(s.Values[:i], v) {
			return false
		}
	}
	for _, o := range all {
		if o.Name == s.Name && (o.Type == typeCNAME) != (s.Type == typeCNAME) {
			return false
		}
		if o.Name == s.Name && o.Type == s.Type && o.SetID != s.SetID &&
			(s.SetID == "" || o.SetID == "" || (s.Weight == nil) != (o.Weight == nil)) {
			return false
		}
	}
	return s.Alias == nil || naiveLeads(s, s.Alias.Name, all, len(all)) && s.Alias.Zone == testZoneID
}

// naiveLeads reports whether the target exists and no path of aliases from it comes back to s.
func naiveLeads(s recordSet, name string, all []recordSet, depth int) bool {
	found := false
	for _, o := range all {
		if o.Name != name || o.Type != s.Type {
			continue
		}
		found = true
		if o.Name == s.Name || depth == 0 {
			return false
		}
		if o.Alias != nil && !naiveLeads(s, o.Alias.Name, all, depth-1) && reaches(o.Alias.Name, s, all, depth) {
			return false
		}
	}
	return found
}

// reaches reports whether following aliases from name comes to the name of s.
func reaches(name string, s recordSet, all []recordSet, depth int) bool {
	if name == s.Name {
		return true
	}
	if depth == 0 {
		return false
	}
	for _, o := range all {
		if o.Name == name && o.Type == s.Type && o.Alias != nil && reaches(o.Alias.Name, s, all, depth-1) {
			return true
		}
	}
	return false
}

// drawSet makes a record set of a small universe, so that batches collide.
func drawSet(rt *rapid.T) *api.ResourceRecordSet {
	names := []string{"example.test", "a.example.test", "b.example.test", "*.example.test", "other.test"}
	if rapid.IntRange(0, 9).Draw(rt, "likely") > 0 {
		names = names[1:4]
	}
	name := rapid.SampledFrom(names).Draw(rt, "name")
	typ := rapid.SampledFrom([]string{"A", "A", "A", "CNAME", "TXT", "NS", "SOA"}).Draw(rt, "type")
	values := map[string][]string{
		"A": {"192.0.2.1", "192.0.2.2", "bad"}, "CNAME": {"x.example.com", "y.example.com"},
		"TXT": {`"x"`, `"y"`}, "NS": {"ns1.cloud.test.", "ns2.cloud.test."},
		"SOA": {"ns1.cloud.test. hostmaster.cloud.test. 1 7200 900 1209600 86400"},
	}[typ]
	if typ == "A" && rapid.IntRange(0, 2).Draw(rt, "alias") == 0 {
		rr := aliasTo(name, typ, rapid.SampledFrom(names[:3]).Draw(rt, "target"))
		if rapid.Bool().Draw(rt, "weighted alias") {
			return weighted(rr, rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "id"), 1)
		}
		return rr
	}
	if typ == "A" && rapid.IntRange(0, 5).Draw(rt, "good") > 0 {
		values = values[:2]
	}
	rr := rrset(name, typ, rapid.SliceOfN(rapid.SampledFrom(values), 1, 2).Draw(rt, "values")...)
	id := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "id")
	switch rapid.IntRange(0, 3).Draw(rt, "policy") {
	case 0:
		return weighted(rr, id, rapid.Int64Range(0, 1).Draw(rt, "weight"))
	case 1:
		return multi(rr, id)
	}
	return rr
}

// toAPI gives the API form of a stored set, with which it can be deleted.
func toAPI(s recordSet) *api.ResourceRecordSet { rr := encodeSet(&s); return &rr }

func TestEvaluateAgainstNaiveModel(t *testing.T) {
	good, bad := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		sets := apexSets()
		for range rapid.IntRange(1, 12).Draw(rt, "batches") {
			var batch []api.Change
			for range rapid.IntRange(1, 4).Draw(rt, "changes") {
				action := rapid.SampledFrom([]string{actionCreate, actionUpsert, actionUpsert, actionDelete}).Draw(rt, "action")
				set := drawSet(rt)
				if action == actionDelete && rapid.IntRange(0, 4).Draw(rt, "existing") > 0 {
					set = toAPI(rapid.SampledFrom(sets).Draw(rt, "victim"))
				}
				batch = append(batch, act(action, set))
			}
			want, ok := naive(sets, batch)
			got, members, changes := run(sets, batch)
			require.Equal(rt, ok, len(members)+len(changes) == 0, "faults: %v %v", members, changes)
			if !ok {
				bad++
				require.Nil(rt, got)
				continue
			}
			good++
			require.Equal(rt, len(want), len(got))
			for i := range want {
				require.Equal(rt, encodeSorted(want[i]), encodeSorted(got[i]))
			}
			sets = got
		}
	})
	require.NotZero(t, good)
	require.NotZero(t, bad)
}

// Paging with any page size from any start gives each record set exactly once, in order.
func TestPagesAreTheList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[-a-c_]{1,3}(\.[-a-c]{1,2}){0,2}`), rapid.ID[string]).Draw(rt, "names")
		sets := apexSets()
		for _, n := range names {
			for _, typ := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"A", "AAAA", "MX", "TXT"}), 1, 3, rapid.ID[string]).Draw(rt, "types") {
				for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"", "a", "b", "ab"}), 1, 3, rapid.ID[string]).Draw(rt, "ids") {
					sets = append(sets, recordSet{Name: n + "." + testZoneName, Type: typ, SetID: id})
				}
			}
		}
		sortSets(sets)
		require.True(rt, slices.IsSortedFunc(sets, func(a, b recordSet) int {
			return strings.Compare(reversed(a), reversed(b))
		}))
		limit := rapid.IntRange(1, 5).Draw(rt, "limit")
		var all []recordSet
		start := listPoint{}
		for {
			page, next := pageSets(sets, start, limit)
			require.LessOrEqual(rt, len(page), limit)
			all = append(all, page...)
			if next == nil {
				break
			}
			start = pointOf(next)
		}
		require.Equal(rt, sets, all)
	})
}

// reversed is an independent spelling of the list order; \x00 sorts before every character.
func reversed(s recordSet) string {
	labels := strings.Split(strings.TrimSuffix(s.Name, "."), ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".") + ".\x00" + s.Type + "\x00" + s.SetID
}

func TestPageStart(t *testing.T) {
	sets := seeded(t,
		create(rrset("a.example.test", "A", "192.0.2.1")),
		create(rrset("a.example.test", "TXT", `"x"`)),
		create(weighted(rrset("b.example.test", "A", "192.0.2.1"), "one", 1)),
		create(weighted(rrset("b.example.test", "A", "192.0.2.2"), "two", 1)),
	)
	show := func(page []recordSet) string {
		var out []string
		for _, s := range page {
			out = append(out, strings.TrimSpace(strings.TrimSuffix(s.Name, ".example.test.")+" "+s.Type+" "+s.SetID))
		}
		return strings.Join(out, ", ")
	}
	all := "example.test. NS, example.test. SOA, a A, a TXT, b A one, b A two"
	for start, want := range map[listPoint]string{
		{}:                                           all,
		{nameOrder("example.test."), "", ""}:         all,
		{nameOrder("test."), "", ""}:                 all,
		{nameOrder("example.test."), "SOA", ""}:      "example.test. SOA, a A, a TXT, b A one, b A two",
		{nameOrder("a.example.test."), "", ""}:       "a A, a TXT, b A one, b A two",
		{nameOrder("a.example.test."), "A", ""}:      "a A, a TXT, b A one, b A two",
		{nameOrder("a.example.test."), "MX", ""}:     "a TXT, b A one, b A two",
		{nameOrder("a.example.test."), "TXT", ""}:    "a TXT, b A one, b A two",
		{nameOrder("a.example.test."), "ZZZ", ""}:    "b A one, b A two",
		{nameOrder("aa.example.test."), "A", ""}:     "b A one, b A two",
		{nameOrder("b.example.test."), "A", "two"}:   "b A two",
		{nameOrder("b.example.test."), "A", "three"}: "b A two",
		{nameOrder("b.example.test."), "A", "zzz"}:   "",
		{nameOrder("z.example.test."), "", ""}:       "",
		{nameOrder(`\052.example.test.`), "", ""}:    "a A, a TXT, b A one, b A two",
		{nameOrder("www.zzz."), "", ""}:              "",
		{nameOrder("x.a.example.test."), "", ""}:     "b A one, b A two",
		{nameOrder("0.a.example.test."), "", ""}:     "b A one, b A two",
	} {
		page, next := pageSets(sets, start, 100)
		require.Nil(t, next)
		require.Equal(t, want, show(page), "%v", start)
	}
	page, next := pageSets(sets, listPoint{}, 4)
	require.Equal(t, "example.test. NS, example.test. SOA, a A, a TXT", show(page))
	require.Equal(t, "one", next.SetID)
}
