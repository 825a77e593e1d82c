package awsgw

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClientConfigIsReadByTheSDK(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's data", "aws")
	c, err := WriteClientConfig(dir, ClientCredentials{
		AccessKeyID: "AKIA1", SecretAccessKey: "se/cr+et=", Region: "eu-west-1", Endpoint: "http://127.0.0.1:9999",
	})
	require.NoError(t, err)
	for _, path := range []string{c.ConfigFile, c.CredentialsFile} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	sess, err := session.NewSessionWithOptions(session.Options{
		Profile: c.Profile, SharedConfigState: session.SharedConfigEnable, SharedConfigFiles: []string{c.ConfigFile, c.CredentialsFile},
	})
	require.NoError(t, err)
	value, err := sess.Config.Credentials.Get()
	require.NoError(t, err)
	assert.Equal(t, "AKIA1", value.AccessKeyID)
	assert.Equal(t, "se/cr+et=", value.SecretAccessKey)
	assert.Equal(t, "eu-west-1", *sess.Config.Region)

	// A shell takes the lines as they are meant.
	out, err := exec.CommandContext(t.Context(), "sh", "-c", c.Exports()+
		`printf '%s|' "$AWS_CONFIG_FILE" "$AWS_SHARED_CREDENTIALS_FILE" "$AWS_PROFILE" "$AWS_ENDPOINT_URL"`).Output()
	require.NoError(t, err)
	assert.Equal(t, []string{c.ConfigFile, c.CredentialsFile, "spinifex", "http://127.0.0.1:9999", ""}, strings.Split(string(out), "|"))
}

func TestExportsAreNotQuotedWithoutNeed(t *testing.T) {
	c := ClientConfig{ConfigFile: "/var/lib/spinifex/aws/config", CredentialsFile: "/a/credentials", Profile: "spinifex", Endpoint: "http://[::1]:9999"}
	assert.Equal(t, `export AWS_CONFIG_FILE=/var/lib/spinifex/aws/config
export AWS_SHARED_CREDENTIALS_FILE=/a/credentials
export AWS_PROFILE=spinifex
export AWS_ENDPOINT_URL='http://[::1]:9999'
`, c.Exports())
}

func TestClientConfigRefusesSeveralLines(t *testing.T) {
	good := ClientCredentials{AccessKeyID: "a", SecretAccessKey: "b", Region: "c", Endpoint: "d"}
	for _, change := range []func(*ClientCredentials){
		func(c *ClientCredentials) { c.AccessKeyID = "" }, func(c *ClientCredentials) { c.Region = "c\n[default]" },
		func(c *ClientCredentials) { c.SecretAccessKey = "s3cret\r" },
	} {
		bad := good
		change(&bad)
		_, err := WriteClientConfig(t.TempDir(), bad)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "s3cret")
	}
}
