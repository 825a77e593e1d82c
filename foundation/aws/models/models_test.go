package models_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws/models"
)

func TestLoadEveryModel(t *testing.T) {
	names := models.Names()
	require.Equal(t, []string{"route53", "sts"}, names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			svc, err := models.Load(name)
			require.NoError(t, err)
			assert.Equal(t, name, svc.Metadata.Signing())
			require.NotEmpty(t, svc.Operations)
			for op, o := range svc.Operations {
				assert.Equal(t, op, o.Name)
				for _, r := range append([]*models.Ref{o.Input, o.Output}, o.Errors...) {
					if r != nil {
						assert.NotNil(t, r.Shape, "%s: %s", op, r.ShapeName)
					}
				}
			}
		})
	}
}

func TestLoadUnknown(t *testing.T) {
	for _, name := range []string{"", "nothing", "../models/route53", "/etc/passwd"} {
		_, err := models.Load(name)
		require.ErrorIs(t, err, models.ErrUnknownService, "%q", name)
	}
}

func TestReferencesInheritTraits(t *testing.T) {
	var svc models.Service
	require.NoError(t, json.Unmarshal([]byte(`{"operations":{},"shapes":{
		"S":{"type":"structure","members":{"A":{"shape":"T","locationName":"a"},"B":{"shape":"T"}},"required":["A"]},
		"T":{"type":"timestamp","timestampFormat":"rfc822","locationName":"t","xmlNamespace":"urn:x"}}}`), &svc))
	require.NoError(t, svc.Resolve())
	s := svc.Shapes["S"]
	assert.Equal(t, []string{"A", "B"}, s.MemberNames)
	assert.Equal(t, "a", s.Members["A"].LocationName)
	assert.Equal(t, "a", s.Members["A"].LocalName)
	assert.Equal(t, "t", s.Members["B"].LocationName)
	assert.Empty(t, s.Members["B"].LocalName)
	assert.Equal(t, "rfc822", s.Members["B"].TimestampFormat)
	assert.Equal(t, "urn:x", s.Members["B"].XMLNamespace.URI)
}

func TestResolveRefusesBrokenModels(t *testing.T) {
	for name, doc := range map[string]string{
		"member without shape": `{"shapes":{"S":{"type":"structure","members":{"A":{"shape":"Nope"}}}}}`,
		"list without shape":   `{"shapes":{"S":{"type":"list","member":{"shape":"Nope"}}}}`,
		"operation":            `{"operations":{"O":{"input":{"shape":"Nope"}}}}`,
		"required":             `{"shapes":{"S":{"type":"structure","required":["A"]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var svc models.Service
			require.NoError(t, json.Unmarshal([]byte(doc), &svc))
			require.Error(t, svc.Resolve())
		})
	}
}

func TestErrorCodesAndStatus(t *testing.T) {
	svc, err := models.Load("route53")
	require.NoError(t, err)
	assert.Equal(t, "NoSuchHostedZone", svc.Shapes["NoSuchHostedZone"].ErrorCode())
	assert.Equal(t, 404, svc.Shapes["NoSuchHostedZone"].ErrorStatus())
	assert.Equal(t, 400, svc.Shapes["InvalidChangeBatch"].ErrorStatus())
	sts, err := models.Load("sts")
	require.NoError(t, err)
	assert.Equal(t, "IDPRejectedClaim", sts.Shapes["IDPRejectedClaimException"].ErrorCode())
	assert.Equal(t, 403, sts.Shapes["IDPRejectedClaimException"].ErrorStatus())
}
