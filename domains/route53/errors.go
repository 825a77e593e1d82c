package route53

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mulgadc/spinifex/foundation/aws"
	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
)

// faults is a list of what is wrong, each fault once.
type faults struct {
	texts []string
	seen  map[string]bool
}

func (f *faults) addf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if f.seen[text] {
		return
	}
	if f.seen == nil {
		f.seen = map[string]bool{}
	}
	f.seen[text] = true
	f.texts = append(f.texts, text)
}

func (f *faults) clone() faults { return faults{slices.Clone(f.texts), maps.Clone(f.seen)} }

// batchFaults is what is wrong with a change batch: members that do not make a change, and changes
// that cannot be made.
type batchFaults struct{ members, changes faults }

func (f *batchFaults) clone() *batchFaults {
	return &batchFaults{f.members.clone(), f.changes.clone()}
}

func (f *batchFaults) any() bool { return len(f.members.texts)+len(f.changes.texts) > 0 }

// err is the answer to the batch: InvalidInput when only members are wrong, as AWS answers before it
// looks at the zone, else InvalidChangeBatch with all faults.
func (f *batchFaults) err() *aws.Error {
	members, changes := f.members.texts, f.changes.texts
	if len(changes) == 0 {
		return invalidInput("Invalid request: %s", strings.Join(bounded(members), ", "))
	}
	all := make([]string, 0, len(members)+len(changes))
	for _, m := range members {
		all = append(all, "Invalid request: "+m)
	}
	return invalidChangeBatch(append(all, changes...)...)
}

func invalidChangeBatch(texts ...string) *aws.Error {
	texts = bounded(texts)
	message := "[" + strings.Join(texts, ", ") + "]"
	err := aws.Errorf(api.CodeInvalidChangeBatch, "%s", message)
	err.Detail = &api.InvalidChangeBatch{Message: &message, Messages: texts}
	return err
}

// maxFaultText bounds what an answer lists of a change batch's faults, in bytes.
const maxFaultText = 64 << 10

// bounded cuts a list of texts at maxFaultText and says how many it leaves out.
func bounded(texts []string) []string {
	size := 0
	for i, t := range texts {
		if size += len(t); size > maxFaultText {
			return append(texts[:i:i], fmt.Sprintf("and %d more", len(texts)-i))
		}
	}
	return texts
}

func noSuchZone(id string) *aws.Error {
	return aws.Errorf(api.CodeNoSuchHostedZone, "No hosted zone found with ID: %s", clip(id))
}

func noSuchChange(id string) *aws.Error {
	return aws.Errorf(api.CodeNoSuchChange, "Could not find resource with ID: %s", clip(id))
}

func invalidInput(format string, args ...any) *aws.Error {
	return aws.Errorf(api.CodeInvalidInput, format, args...)
}

// unsupported is the answer to a member that this release gives no effect to.
func unsupported(member, what string) *aws.Error {
	return invalidInput("%s: %s are not supported by this release", member, what)
}
