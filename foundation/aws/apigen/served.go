package main

// served is one service and its operations that get types.
type served struct {
	// Model is the model's name, which becomes the package's.
	Model string
	// Operations are AWS's names, in the order of the API reference.
	Operations []string
}

// servedServices returns the table that the generator works from.
func servedServices() []served {
	return []served{
		{Model: "route53", Operations: []string{
			"CreateHostedZone",
			"GetHostedZone",
			"ListHostedZones",
			"ListHostedZonesByName",
			"GetHostedZoneCount",
			"UpdateHostedZoneComment",
			"DeleteHostedZone",
			"ChangeResourceRecordSets",
			"ListResourceRecordSets",
			"GetChange",
			"ChangeTagsForResource",
			"ListTagsForResource",
			"ListTagsForResources",
			"TestDNSAnswer",
			"GetDNSSEC",
		}},
		{Model: "sts", Operations: []string{
			"GetCallerIdentity",
		}},
	}
}
