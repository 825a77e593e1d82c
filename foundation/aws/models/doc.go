// Package models holds AWS's own API models of the services that are served, without their
// documentation texts, and loads them.
//
// A model is immutable once loaded and safe for concurrent use. References between shapes are
// resolved at load time, so that a walk over a shape needs no look-ups and cannot fail half-way.
// NOTICE says where the files come from and under which licence.
package models
