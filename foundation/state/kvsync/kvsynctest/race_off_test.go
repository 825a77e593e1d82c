//go:build !race

package kvsynctest_test

// schedulesByDefault is what fits among the other tests.
const schedulesByDefault = 2000
