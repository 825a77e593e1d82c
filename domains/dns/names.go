package dns

import (
	"fmt"
	"strings"

	mdns "github.com/miekg/dns"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

// canonicalName returns a domain name absolute and in lower case, with the escapes of the DNS library, so
// that equal names are equal texts.
func canonicalName(name string) (string, error) {
	var buf [256]byte
	n, err := mdns.PackDomainName(mdns.Fqdn(name), buf[:], 0, nil, false)
	if err != nil || n > 255 || name == "" {
		return "", fmt.Errorf("%q is no domain name", name)
	}
	text, _, err := mdns.UnpackDomainName(buf[:n], 0)
	if err != nil {
		return "", fmt.Errorf("%q is no domain name: %w", name, err)
	}
	return strings.ToLower(text), nil
}

// below reports whether a canonical name is strictly below another.
func below(name, above string) bool {
	return name != above && mdns.IsSubDomain(above, name)
}

// checkSet proves that a DNS server can load a set: one that it cannot would keep the whole zone back.
func checkSet(set *dnsapi.RRSet) error {
	rtype, known := mdns.StringToType[set.Type]
	if !known || len(set.Values) == 0 {
		return fmt.Errorf("%s %s: unknown type or no values", set.Name, set.Type)
	}
	for _, value := range set.Values {
		if strings.ContainsAny(value, "\r\n") {
			return fmt.Errorf("%s %s: value %q has a line break", set.Name, set.Type, value)
		}
		zp := mdns.NewZoneParser(strings.NewReader(". 0 IN "+set.Type+" "+value+"\n"), ".", "")
		rr, ok := zp.Next()
		if err := zp.Err(); err != nil || !ok || rr.Header().Rrtype != rtype {
			return fmt.Errorf("%s %s: value %q is no record", set.Name, set.Type, value)
		}
	}
	return nil
}
