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
	if len(set.Values) == 0 {
		return fmt.Errorf("%s %s: no values", set.Name, set.Type)
	}
	for _, value := range set.Values {
		if _, err := dnsapi.ParseValue(set.Type, value); err != nil {
			return fmt.Errorf("%s %s: %w", set.Name, set.Type, err)
		}
	}
	return nil
}
