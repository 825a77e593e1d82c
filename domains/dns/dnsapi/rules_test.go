package dnsapi_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

func TestNextSerial(t *testing.T) {
	now := time.Unix(1000, 0)
	assert.EqualValues(t, 1000, dnsapi.NextSerial(0, now))
	assert.EqualValues(t, 1001, dnsapi.NextSerial(1000, now))
	assert.EqualValues(t, 2001, dnsapi.NextSerial(2000, now))
	assert.EqualValues(t, 1, dnsapi.NextSerial(0, time.Unix(-5, 0)))
	assert.EqualValues(t, math.MaxUint32, dnsapi.NextSerial(math.MaxUint32, now))
}

func TestParseValue(t *testing.T) {
	rr, err := dnsapi.ParseValue("MX", "10 mail.example.test.")
	require.NoError(t, err)
	assert.Equal(t, ".\t0\tIN\tMX\t10 mail.example.test.", rr.String())
	for _, bad := range [][2]string{
		{"A", ""}, {"A", " "}, {"A", "2001:db8::1"}, {"NONSENSE", "192.0.2.1"},
		{"A", "192.0.2.1\n. 0 IN A 192.0.2.2"}, {"TXT", "\"a\"\n$INCLUDE /etc/hostname"},
	} {
		_, err := dnsapi.ParseValue(bad[0], bad[1])
		assert.Error(t, err, "%q", bad)
	}
}
