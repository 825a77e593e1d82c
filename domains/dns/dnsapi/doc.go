// Package dnsapi is the leaf of the DNS domain that other domains and the DNS server import: the
// zone object, who may read and write it, the rules that its writers and the servers share, and the
// status that each DNS server reports.
package dnsapi
