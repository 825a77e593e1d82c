// Package iam keeps who may use the cloud: for now the first account, its one user and the user's
// access key. No operation of the IAM API is served yet.
//
// # State
//
// The bucket spinifex-iam (Bucket) holds
//
//	<account>.user.<name>   a user; names are escaped
//	<account>.key.<AKIA…>   an access key, its secret sealed (foundation/seal)
//	key.<AKIA…>             the account of an access key, which a request does not name
//
// A sealed secret is bound to its record: copied to another one it cannot be opened. A process whose
// sealing key is another one than that of the process that made the records gets a
// *seal.OtherKeyError, which says which file to copy.
//
// # Invariants
//
// The administrator and its first key are made once for the whole cloud, however many processes
// start at once and wherever they are killed (EnsureAdministrator): the user's record is created by
// compare-and-swap with the key inside; the key's own records are made from it by whoever comes next,
// and only then the copy in the user's record is dropped. A key that has been deleted afterwards does
// not come back.
//
// A lookup is remembered for CacheTTL: a key that was deactivated works that much longer.
package iam
