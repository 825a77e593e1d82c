// Package all is the list of the operation tables of all domains, and nothing else. A domain that is
// not in it is served by nobody.
package all
