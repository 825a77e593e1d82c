//go:build race

package process

// raceEnabled is true when this program was built with the race detector; so are then the programs
// that it builds.
const raceEnabled = true
