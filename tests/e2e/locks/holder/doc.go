// Command holder holds one lease, for the tests that kill or stop who holds it. It prints "held GENERATION"
// once it does.
//
// A pause of the process for longer than the time to live is noticed from inside: at the first
// instruction after it the program prints "woke held=BOOL", and then what became of a guarded write.
package main
