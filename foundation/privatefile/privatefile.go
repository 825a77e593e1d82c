package privatefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Read returns the content of a file. A file that others than its owner may read or write is an
// error, one that is missing is an error that is fs.ErrNotExist.
func Read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %#o: others than its owner may use it, it must be 0600", path, mode)
	}
	content := make([]byte, info.Size())
	n, err := file.ReadAt(content, 0)
	if err != nil && n != len(content) {
		return nil, err
	}
	return content, nil
}

// ReadOrCreate returns the content of a file. Where it is missing it is written with what create
// returns; of several processes that do so at once all return what the first one wrote.
func ReadOrCreate(path string, create func() ([]byte, error)) ([]byte, error) {
	content, err := Read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return content, err
	}
	if content, err = create(); err != nil {
		return nil, err
	}
	// A link fails where the name exists, which a rename does not.
	err = write(path, content, os.Link)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return Read(path)
}

// Write makes content the content of a file, whatever was there.
func Write(path string, content []byte) error { return write(path, content, os.Rename) }

func write(path string, content []byte, publish func(from, to string) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // already gone after a rename
	_, err = temp.Write(content)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := publish(temp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a new name in a directory last through a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
