// Package dns measures how many answers per second a node's DNS server gives, against Debian's nsd
// serving the same zone on the same machine.
//
// Both servers are processes of their own on loopback ports; dnsperf is the client of both, in short
// rounds that alternate, so that a busy moment of the machine hits both alike. Our node runs
// everything that a one-node cloud runs, and its zone of 1,000 records is made through the API.
//
//	make bench
package dns
