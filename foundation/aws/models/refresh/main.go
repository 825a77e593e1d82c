package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "refresh:", err)
		os.Exit(1)
	}
}

func run(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("refresh", flag.ContinueOnError)
	flags.SetOutput(stderr)
	from := flags.String("from", "", "botocore's wheel, or a directory that has botocore/data in it")
	out := flags.String("out", ".", "directory that gets the models")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *from == "" || flags.NArg() == 0 {
		return errors.New("usage: refresh -from WHEEL [-out DIRECTORY] SERVICE [SERVICE]")
	}
	src, done, err := open(*from)
	if err != nil {
		return err
	}
	defer done()
	for _, service := range flags.Args() {
		doc, err := read(src, service)
		if err != nil {
			return fmt.Errorf("%s: %w", service, err)
		}
		packed, err := pack(doc)
		if err != nil {
			return fmt.Errorf("%s: %w", service, err)
		}
		if err := os.WriteFile(filepath.Join(*out, service+".json.gz"), packed, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// open returns the files of a wheel, which is a zip archive, or of a directory.
func open(from string) (fs.FS, func(), error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, nil, err
	}
	if info.IsDir() {
		return os.DirFS(from), func() {}, nil
	}
	z, err := zip.OpenReader(from)
	if err != nil {
		return nil, nil, fmt.Errorf("open wheel: %w", err)
	}
	return z, func() { _ = z.Close() }, nil // opened for reading alone
}

// read makes the document of one service.
func read(src fs.FS, service string) (map[string]any, error) {
	root := path.Join("botocore/data", service)
	versions, err := fs.ReadDir(src, root)
	if err != nil {
		return nil, err
	}
	version := ""
	for _, v := range versions {
		if v.IsDir() { // sorted by name, which is a date
			version = v.Name()
		}
	}
	doc := map[string]any{}
	for key, file := range map[string]string{"service": "service-2.json", "paginators": "paginators-1.json", "waiters": "waiters-2.json"} {
		v, err := readJSON(src, path.Join(root, version, file))
		if errors.Is(err, fs.ErrNotExist) && key != "service" {
			continue
		}
		if err != nil {
			return nil, err
		}
		doc[key] = withoutDocumentation(v)
	}
	return doc, nil
}

// readJSON reads a file that may be compressed.
func readJSON(src fs.FS, name string) (any, error) {
	b, err := fs.ReadFile(src, name)
	if errors.Is(err, fs.ErrNotExist) {
		var packed []byte
		if packed, err = fs.ReadFile(src, name+".gz"); err != nil {
			return nil, err
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, fmt.Errorf("%s.gz: %w", name, err)
		}
		if b, err = io.ReadAll(z); err != nil {
			return nil, fmt.Errorf("%s.gz: %w", name, err)
		}
	} else if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber() // bounds such as 9223372036854775807 are beyond a float64
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// withoutDocumentation removes texts. A member may be called documentation too: that is an object.
func withoutDocumentation(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if _, text := e.(string); text && (k == "documentation" || k == "documentationUrl") {
				delete(v, k)
				continue
			}
			v[k] = withoutDocumentation(e)
		}
	case []any:
		for i, e := range v {
			v[i] = withoutDocumentation(e)
		}
	}
	return v
}

// pack writes the document with sorted keys, compressed, the same bytes for the same document.
func pack(doc map[string]any) ([]byte, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
