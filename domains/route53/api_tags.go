package route53

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/mulgadc/spinifex/foundation/aws"
	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
)

const (
	maxTags     = 10 // of one resource; the model's answer has room for no more
	maxTagKey   = 128
	maxTagValue = 256
	maxTagSets  = 10 // resources of one ListTagsForResources
)

// ChangeTagsForResource adds, overwrites and removes tags of a hosted zone, in one write.
func (s *Service) ChangeTagsForResource(ctx context.Context, call *aws.Call, in *api.ChangeTagsForResourceRequest) (*api.ChangeTagsForResourceResponse, error) {
	if err := checkTagged(in.ResourceType, value(in.ResourceId)); err != nil {
		return nil, err
	}
	if err := checkTagChange(in); err != nil {
		return nil, err
	}
	_, err := s.editZone(ctx, call.Account, value(in.ResourceId), func(z *zoneRecord) error {
		tags := changedTags(z.Tags, in.AddTags, in.RemoveTagKeys)
		if len(tags) > maxTags {
			return invalidInput("A hosted zone can have at most %d tags", maxTags)
		}
		if slices.Equal(tags, z.Tags) {
			return errUnchanged
		}
		z.Tags = tags
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &api.ChangeTagsForResourceResponse{}, nil
}

// checkTagged refuses what is no hosted zone. Health checks can be tagged, but none exists.
func checkTagged(kind *string, ids ...string) error {
	switch value(kind) {
	case api.TagResourceTypeHostedzone:
		return nil
	case api.TagResourceTypeHealthcheck:
		return aws.Errorf(api.CodeNoSuchHealthCheck,
			"No health check exists with the specified ID %s: health checks are not supported by this release", clip(strings.Join(ids, ", ")))
	}
	return invalidInput("ResourceType '%s' is not one of [hostedzone, healthcheck]", clip(value(kind)))
}

func checkTagChange(in *api.ChangeTagsForResourceRequest) error {
	if len(in.AddTags) == 0 && len(in.RemoveTagKeys) == 0 {
		return invalidInput("AddTags or RemoveTagKeys is required")
	}
	if len(in.AddTags) > maxTags || len(in.RemoveTagKeys) > maxTags {
		return invalidInput("AddTags and RemoveTagKeys can have at most %d members each", maxTags)
	}
	seen := map[string]bool{}
	for _, t := range in.AddTags {
		key := value(t.Key)
		switch {
		case key == "" || runes(key) > maxTagKey:
			return invalidInput("The key of a tag must have 1 to %d characters", maxTagKey)
		case runes(value(t.Value)) > maxTagValue:
			return invalidInput("The value of tag '%s' has more than %d characters", clip(key), maxTagValue)
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return invalidInput("The key of tag '%s' begins with the reserved aws:", clip(key))
		case seen[key]:
			return invalidInput("Tag '%s' is given twice", clip(key))
		}
		seen[key] = true
	}
	for _, key := range in.RemoveTagKeys {
		if seen[key] {
			return invalidInput("Tag '%s' is both added and removed", clip(key))
		}
	}
	return nil
}

// changedTags returns the tags after the change, sorted by key.
func changedTags(have []tag, add []api.Tag, remove []string) []tag {
	out := slices.DeleteFunc(slices.Clone(have), func(t tag) bool {
		return slices.Contains(remove, t.Key) ||
			slices.ContainsFunc(add, func(a api.Tag) bool { return value(a.Key) == t.Key })
	})
	for _, a := range add {
		out = append(out, tag{value(a.Key), value(a.Value)})
	}
	slices.SortFunc(out, func(a, b tag) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// ListTagsForResource answers the tags of one hosted zone.
func (s *Service) ListTagsForResource(ctx context.Context, call *aws.Call, in *api.ListTagsForResourceRequest) (*api.ListTagsForResourceResponse, error) {
	if err := checkTagged(in.ResourceType, value(in.ResourceId)); err != nil {
		return nil, err
	}
	set, err := s.tagsOf(ctx, call.Account, value(in.ResourceId))
	if err != nil {
		return nil, err
	}
	return &api.ListTagsForResourceResponse{ResourceTagSet: &set}, nil
}

// ListTagsForResources answers the tags of up to ten hosted zones, in the order asked.
func (s *Service) ListTagsForResources(ctx context.Context, call *aws.Call, in *api.ListTagsForResourcesRequest) (*api.ListTagsForResourcesResponse, error) {
	if err := checkTagged(in.ResourceType, in.ResourceIds...); err != nil {
		return nil, err
	}
	if len(in.ResourceIds) == 0 || len(in.ResourceIds) > maxTagSets {
		return nil, invalidInput("ResourceIds must have 1 to %d members", maxTagSets)
	}
	out := &api.ListTagsForResourcesResponse{ResourceTagSets: []api.ResourceTagSet{}}
	for _, id := range in.ResourceIds {
		set, err := s.tagsOf(ctx, call.Account, id)
		if err != nil {
			return nil, err
		}
		out.ResourceTagSets = append(out.ResourceTagSets, set)
	}
	return out, nil
}

func (s *Service) tagsOf(ctx context.Context, account, givenID string) (api.ResourceTagSet, error) {
	z, err := s.getZone(ctx, account, givenID)
	if err != nil {
		return api.ResourceTagSet{}, err
	}
	set := api.ResourceTagSet{
		ResourceType: new(api.TagResourceTypeHostedzone), ResourceId: new(z.ID), Tags: []api.Tag{},
	}
	for _, t := range z.Tags {
		set.Tags = append(set.Tags, api.Tag{Key: new(t.Key), Value: new(t.Value)})
	}
	return set, nil
}
