// Package seal encrypts small secrets before they are stored, with AES-256-GCM under a key that
// every node has in a file.
//
// A sealed text is "v1.<key id>.<base64 of nonce and ciphertext>". It is bound to a context, the
// place where it is stored: moved to another record it cannot be opened. The key id tells a text
// that was sealed with another key (OtherKeyError, which says which file to copy) from one that was
// altered (ErrAltered).
//
// Whoever has the key file can open every secret of the cloud: it has mode 0600, is never logged
// and never stored in a bucket. Lost, the sealed secrets are lost with it.
package seal
