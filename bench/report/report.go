package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Report is one run of one benchmark.
type Report struct {
	// Name is the benchmark's, such as "dns"; it is part of the file name.
	Name string
	// Setup says what ran against what.
	Setup []string
	// Columns and Rows are the figures.
	Columns []string
	Rows    [][]string
	// More are tables of other figures.
	More []Table
	// Goals are what the design asks for, judged.
	Goals []Goal
}

// Table is a table with a title.
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
}

// Goal is a ratio with its limit.
type Goal struct {
	What  string
	Value float64
	// Limit is the largest Value that passes, or the smallest when AtLeast is set.
	Limit   float64
	AtLeast bool
}

// Met reports whether the value keeps the limit.
func (g Goal) Met() bool {
	if g.AtLeast {
		return g.Value >= g.Limit
	}
	return g.Value <= g.Limit
}

// String is the goal as a line of a list.
func (g Goal) String() string {
	verdict, relation := "short", "<="
	if g.Met() {
		verdict = "pass"
	}
	if g.AtLeast {
		relation = ">="
	}
	return fmt.Sprintf("%s: %s: %.2f, wanted %s %.2f", verdict, g.What, g.Value, relation, g.Limit)
}

// Write prints the report as Markdown.
func (r *Report) Write(w io.Writer, at time.Time) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "# %s, %s\n\n", r.Name, at.UTC().Format(time.DateTime))
	fmt.Fprintf(out, "- machine: %s, %d CPUs, %s\n", processor(), runtime.NumCPU(), runtime.Version())
	for _, line := range r.Setup {
		fmt.Fprintf(out, "- %s\n", line)
	}
	for _, t := range append([]Table{{Columns: r.Columns, Rows: r.Rows}}, r.More...) {
		t.write(out)
	}
	fmt.Fprintln(out)
	for _, g := range r.Goals {
		fmt.Fprintf(out, "- %s\n", g)
	}
	return out.Flush()
}

func (t Table) write(out io.Writer) {
	if len(t.Rows) == 0 {
		return
	}
	if t.Title != "" {
		fmt.Fprintf(out, "\n%s:\n", t.Title)
	}
	fmt.Fprintf(out, "\n| %s |\n|%s\n", strings.Join(t.Columns, " | "), strings.Repeat("---|", len(t.Columns)))
	for _, row := range t.Rows {
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
	}
}

// Publish prints the report to standard output and, when dir is not empty, into a dated file there.
func (r *Report) Publish(dir string) error {
	now := time.Now()
	if err := r.Write(os.Stdout, now); err != nil {
		return err
	}
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, now.UTC().Format(time.DateOnly)+"-"+r.Name+".md"))
	if err != nil {
		return err
	}
	return errors.Join(r.Write(file, now), file.Close())
}

// processor is the machine's model name, as far as Linux tells.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.SplitSeq(string(info), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
