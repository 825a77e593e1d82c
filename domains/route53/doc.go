// Package route53 is Amazon Route 53's API for hosted zones and their record sets, and the two loops
// behind it: the realizer, which publishes active zones to the DNS servers, and the verifier, which
// asks whether a zone's parent delegates to this cluster.
package route53
