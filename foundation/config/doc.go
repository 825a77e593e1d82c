// Package config reads the configuration of a process: defaults, then one TOML file, then the
// variables SPINIFEX_<SECTION>_<KEY>, then flags, each overriding the one before.
//
// Every setting stands in one list (settings.go) with its key, its default and its check, so a value
// is judged alike wherever it came from. Load reports every fault at once; a fault names the key, the
// value, where it came from and what is allowed, and an unknown key also the nearest known one. A
// setting that has no effect does not exist.
//
// The package reads no environment and no flags by itself: cmd gives them to Load, once.
package config
