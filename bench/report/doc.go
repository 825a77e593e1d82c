// Package report prints what a benchmark measured, each figure beside what it is measured against
// and what the design asks for, and keeps the page as a file when it is asked to.
//
// Figures are compared within one run on one machine only: a ratio travels, a time does not.
package report
