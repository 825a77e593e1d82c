package aws

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotARN is returned by ParseARN for a text that is no ARN.
var ErrNotARN = errors.New("not an ARN")

// ARN is an Amazon Resource Name: arn:partition:service:region:account:resource. Region and
// Account are "" for resources without.
type ARN struct {
	Partition string
	Service   string
	Region    string
	Account   string
	// Resource is everything after the fifth colon, such as "hostedzone/Z1" or "role/path/name".
	Resource string
}

// ParseARN splits an ARN. It does not know which services and resources there are.
func ParseARN(s string) (ARN, error) {
	p := strings.SplitN(s, ":", 6)
	if len(p) != 6 || p[0] != "arn" || p[1] == "" || p[2] == "" || p[5] == "" {
		return ARN{}, fmt.Errorf("parse %q: %w", s, ErrNotARN)
	}
	return ARN{Partition: p[1], Service: p[2], Region: p[3], Account: p[4], Resource: p[5]}, nil
}

// String formats the ARN; an empty partition is "aws".
func (a ARN) String() string {
	partition := a.Partition
	if partition == "" {
		partition = "aws"
	}
	return strings.Join([]string{"arn", partition, a.Service, a.Region, a.Account, a.Resource}, ":")
}
