package dns

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

// lines makes record sets of lines "name TYPE ttl value,value class", where "-" is no TTL and no class,
// as show formats them.
func lines(t *testing.T, text string) []dnsapi.RRSet {
	t.Helper()
	var sets []dnsapi.RRSet
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), " ")
		if f[0] == "" && len(f) == 1 {
			continue
		}
		require.Len(t, f, 5, line)
		name := base
		if f[0] != "@" {
			name = f[0] + "." + base
		}
		s := dnsapi.RRSet{Name: name, Type: f[1], Values: strings.Split(f[3], ",")}
		if f[2] == "60" {
			s.TTL = new(uint32(60))
		}
		if f[4] != "-" {
			s.Managed, s.Source = true, f[4]
		}
		sets = append(sets, s)
	}
	return sets
}

func zone(t *testing.T, serial uint32, text string) *dnsapi.Zone {
	t.Helper()
	return &dnsapi.Zone{
		Version: 1, Class: dnsapi.Platform, Name: base, ID: base, Serial: serial, TTL: 300, NegativeTTL: 300,
		Generation: 7, RRSets: lines(t, text),
	}
}

func TestPlan(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		why string
		// current is the zone's sets, "none" for no zone.
		current string
		// eks and rds are what these classes want; a leading "!" says that the class is not complete.
		eks, rds  string
		keepAll   bool
		want      string // "same" when nothing is to be written
		conflicts string
	}{
		{"nothing wanted of no zone", "none", "", "", false, "", ""},
		{"no zone", "none", "x A 60 192.0.2.1 eks", "y A 60 192.0.2.2 rds", false, "x A 60 192.0.2.1 eks\ny A 60 192.0.2.2 rds", ""},
		{"no zone and half a class", "none", "!x A 60 192.0.2.1 eks", "", false, "x A 60 192.0.2.1 eks", ""},
		{"nothing to do", "x A 60 192.0.2.1 eks", "x A 60 192.0.2.1 eks", "", false, "same", ""},
		{"the order does not matter", "y A 60 192.0.2.2 eks\nx A 60 192.0.2.1 eks", "x A 60 192.0.2.1 eks\ny A 60 192.0.2.2 eks", "", false, "same", ""},
		{"a new name", "x A 60 192.0.2.1 eks", "x A 60 192.0.2.1 eks\ny A 60 192.0.2.2 eks", "", false, "x A 60 192.0.2.1 eks\ny A 60 192.0.2.2 eks", ""},
		{"another value", "x A 60 192.0.2.1 eks", "x A 60 192.0.2.9 eks", "", false, "x A 60 192.0.2.9 eks", ""},
		{"a name that is gone", "x A 60 192.0.2.1 eks\ny A 60 192.0.2.2 eks", "x A 60 192.0.2.1 eks", "", false, "x A 60 192.0.2.1 eks", ""},
		{"a class that wants nothing any more", "x A 60 192.0.2.1 eks", "", "", false, "", ""},
		{"half a class prunes nothing", "x A 60 192.0.2.1 eks\ny A 60 192.0.2.2 eks", "!x A 60 192.0.2.1 eks", "", false, "same", ""},
		{"a class that was not seen prunes nothing", "x A 60 192.0.2.1 eks\ny A 60 192.0.2.2 rds", "!", "", false, "x A 60 192.0.2.1 eks", ""},
		{"half a class adds and changes", "x A 60 192.0.2.1 eks\ny A 60 192.0.2.2 eks", "!x A 60 192.0.2.9 eks\nz A 60 192.0.2.3 eks", "", false,
			"x A 60 192.0.2.9 eks\ny A 60 192.0.2.2 eks\nz A 60 192.0.2.3 eks", ""},
		{"a class that this release does not know stays", "x A 60 192.0.2.1 future", "", "", false, "same", ""},
		{"a spoilt zone prunes nothing", "x A 60 192.0.2.1 eks", "y A 60 192.0.2.2 eks", "", true, "x A 60 192.0.2.1 eks\ny A 60 192.0.2.2 eks", ""},
		{"what is not managed stays", "team NS - ns1.cloud.example. -\nx A 60 192.0.2.1 eks", "", "", false, "team NS - ns1.cloud.example. -", ""},
		{"what is not managed is not replaced", "x A - 192.0.2.7 -", "x A 60 192.0.2.1 eks", "", false, "same", "another set"},
		{"a CNAME that is not managed", "x CNAME - a.test. -", "x A 60 192.0.2.1 eks", "", false, "same", "CNAME stands alone"},
		{"a CNAME beside others", "x TXT - \"a\" -", "x CNAME 60 a.test. eks", "", false, "same", "CNAME stands alone"},
		{"the first class has the name", "none", "x A 60 192.0.2.1 eks", "x A 60 192.0.2.2 rds", false, "x A 60 192.0.2.1 eks", "another set"},
		{"a name changes its class", "x A 60 192.0.2.1 rds", "x A 60 192.0.2.1 eks", "", false, "x A 60 192.0.2.1 eks", ""},
		{"a name of a half class gives way", "x CNAME 60 a.test. rds", "x A 60 192.0.2.1 eks", "!", false, "x A 60 192.0.2.1 eks", ""},
		{"a record that lost its mark is not managed", "x A 60 192.0.2.1 -", "", "", false, "same", ""},
	} {
		t.Run(tc.why, func(t *testing.T) {
			var current *dnsapi.Zone
			if tc.current != "none" {
				current = zone(t, 5, tc.current)
			}
			before := show(current)
			d := desired{zone: base}
			for _, c := range []struct{ class, text string }{{"eks", tc.eks}, {"rds", tc.rds}} {
				text, partial := strings.CutPrefix(c.text, "!")
				d.classes = append(d.classes, classSet{class: c.class, sets: lines(t, text), complete: !partial})
			}
			p := plan(d, current, !tc.keepAll, now)
			if tc.conflicts == "" {
				assert.Empty(t, p.conflicts)
			} else {
				require.Len(t, p.conflicts, 1)
				assert.Contains(t, p.conflicts[0], tc.conflicts)
			}
			assert.Equal(t, before, show(current), "the current zone is left as it was")
			if tc.want == "same" {
				assert.Nil(t, p.zone)
				return
			}
			require.NotNil(t, p.zone)
			assert.Equal(t, tc.want, show(p.zone))
			assert.EqualValues(t, now.Unix(), p.zone.Serial)
			assert.Zero(t, p.zone.Generation, "the writer sets it")
			again := plan(d, p.zone, true, now.Add(time.Second))
			if !tc.keepAll {
				assert.Nil(t, again.zone, "the next pass has nothing to do")
			}
		})
	}
}

func TestPlanRepairsTheZoneItself(t *testing.T) {
	d := desired{zone: base, classes: []classSet{{class: "eks", sets: lines(t, "x A 60 192.0.2.1 eks"), complete: true}}}
	for why, spoil := range map[string]func(*dnsapi.Zone){
		"ttl": func(z *dnsapi.Zone) { z.TTL = 1 }, "negative": func(z *dnsapi.Zone) { z.NegativeTTL = 1 },
		"id": func(z *dnsapi.Zone) { z.ID = "Z1" },
	} {
		z := zone(t, 5, "x A 60 192.0.2.1 eks")
		require.Nil(t, plan(d, z, true, time.Unix(9, 0)).zone)
		spoil(z)
		p := plan(d, z, true, time.Unix(9, 0))
		require.NotNil(t, p.zone, why)
		assert.Equal(t, base, p.zone.ID)
		assert.EqualValues(t, 300, p.zone.TTL)
	}
}

func TestNormalise(t *testing.T) {
	sets, faults := normalise(base, "eks", []dnsapi.RRSet{
		a("X.Cloud.Example", "192.0.2.2", "192.0.2.1", "192.0.2.2"),
		{Name: "ttl." + base, Type: "TXT", TTL: new(uint32(5)), Values: []string{"\"b\""}},
		a("outside.example.", "192.0.2.1"), a("bad..name.", "192.0.2.1"), a("v."+base, "nonsense"), a("n." + base),
		a("i."+base, "192.0.2.1\n$INCLUDE /etc/passwd"),
		{Name: "u." + base, Type: "UNKNOWN", Values: []string{"x"}},
		{Name: "w." + base, Type: "A", SetID: "a", Values: []string{"192.0.2.1"}},
	})
	assert.Equal(t, "x A 60 192.0.2.1,192.0.2.2 eks\nttl TXT 5 \"b\" eks", show(&dnsapi.Zone{RRSets: sets}))
	assert.Len(t, faults, 7)
	for _, err := range faults {
		assert.ErrorContains(t, err, "source eks")
	}
}
