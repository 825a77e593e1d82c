// Package sts is the Security Token Service: who a caller is.
//
// It owns no bucket and no loop: an answer is made of the identity that the gateway has verified and
// signed (foundation/messaging), so nothing is lost in a crash.
package sts
