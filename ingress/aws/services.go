package awsingress

import (
	"fmt"
	"log/slog"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/models"
	"github.com/mulgadc/spinifex/foundation/aws/wire"
)

// service is one AWS service that the cloud has.
type service struct {
	name string // signing name
	wire *wire.Service
	ops  map[string]aws.Operation
}

// loadServices makes the services of a table of operations.
func loadServices(table []aws.Operation, log *slog.Logger) (map[string]*service, error) {
	bySigning := map[string]*models.Service{}
	for _, name := range models.Names() {
		model, err := models.Load(name)
		if err != nil {
			return nil, fmt.Errorf("ingress: %w", err)
		}
		bySigning[model.Metadata.Signing()] = model
	}
	services := map[string]*service{}
	for _, op := range table {
		s := services[op.Service]
		if s == nil {
			model := bySigning[op.Service]
			if model == nil {
				return nil, fmt.Errorf("ingress: operation %s: no API model signs as %q", op.Name, op.Service)
			}
			codec, err := wire.New(model, wire.Limits{})
			if err != nil {
				return nil, fmt.Errorf("ingress: %w", err)
			}
			if skipped := codec.SkippedPatterns(); len(skipped) > 0 {
				log.Debug("patterns of the API model are not checked", "service", op.Service, "shapes", skipped)
			}
			s = &service{name: op.Service, wire: codec, ops: map[string]aws.Operation{}}
			services[op.Service] = s
		}
		if s.wire.Model().Operations[op.Name] == nil {
			return nil, fmt.Errorf("ingress: the API model of %s has no operation %s", op.Service, op.Name)
		}
		if op.NewInput == nil || op.NewOutput == nil {
			return nil, fmt.Errorf("ingress: operation %s of %s has no types", op.Name, op.Service)
		}
		s.ops[op.Name] = op
	}
	return services, nil
}

// notServed is the answer to an operation that AWS has and this release does not serve.
func (s *service) notServed(operation string) *aws.Error {
	message := fmt.Sprintf("The operation %s of %s is not served by this cloud.", operation, s.wire.Model().Metadata.ServiceID)
	if s.wire.Model().Metadata.Protocol == "query" {
		return &aws.Error{Code: "InvalidAction", Message: message, Status: 400}
	}
	return &aws.Error{Code: unknownOperation, Message: message, Status: 404}
}
