// Package archtest holds the rules that the repository keeps about itself, and checks them.
//
// A Tree is the repository parsed in this process. Nothing shells out to the go command: the test
// cache does not see what a child process reads, so such a test would pass on a stale result. Files
// that are read through the os package are seen, and a change of any of them runs the rules again.
//
// A Rule looks at a Tree and answers with Findings, each with its place and what is allowed instead.
// Rules returns all of them; rules that need more than syntax (which operations a service serves)
// are tests of this package. Every rule has a test of its own that shows it catching a violation in
// a small made-up tree.
//
// What a rule allows by exception stands beside the rule as data, with its reason. To add an
// exception is to write the reason down.
package archtest
