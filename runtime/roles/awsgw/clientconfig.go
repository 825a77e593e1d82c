package awsgw

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mulgadc/spinifex/foundation/privatefile"
)

// Profile is the name of the profile in the files that WriteClientConfig writes.
const Profile = "spinifex"

// ClientCredentials are what an AWS client needs to know.
type ClientCredentials struct {
	AccessKeyID, SecretAccessKey string
	Region                       string
	// Endpoint is the gateway's URL.
	Endpoint string
}

// ClientConfig says where an AWS client finds it.
type ClientConfig struct {
	ConfigFile, CredentialsFile string // absolute paths
	Profile                     string
	Endpoint                    string
}

// WriteClientConfig writes the files config and credentials in dir, for an AWS client, each whole
// and private to its owner, over what was there.
func WriteClientConfig(dir string, c ClientCredentials) (ClientConfig, error) {
	for _, value := range []string{c.AccessKeyID, c.SecretAccessKey, c.Region, c.Endpoint} {
		if value == "" || strings.ContainsAny(value, "\r\n\x00") {
			return ClientConfig{}, errors.New("write the AWS client's configuration: a value is missing or has more than one line")
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ClientConfig{}, fmt.Errorf("write the AWS client's configuration: %w", err)
	}
	files := ClientConfig{
		ConfigFile: filepath.Join(dir, "config"), CredentialsFile: filepath.Join(dir, "credentials"),
		Profile: Profile, Endpoint: c.Endpoint,
	}
	for path, text := range map[string]string{
		files.CredentialsFile: fmt.Sprintf("[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n", Profile, c.AccessKeyID, c.SecretAccessKey),
		files.ConfigFile:      fmt.Sprintf("[profile %s]\nregion = %s\noutput = json\nendpoint_url = %s\n", Profile, c.Region, c.Endpoint),
	} {
		if err := privatefile.Write(path, []byte(text)); err != nil {
			return ClientConfig{}, fmt.Errorf("write the AWS client's configuration %s: %w", path, err)
		}
	}
	return files, nil
}

// Exports are the lines for a shell that make AWS clients use the files and the gateway.
func (c ClientConfig) Exports() string {
	return fmt.Sprintf("export AWS_CONFIG_FILE=%s\nexport AWS_SHARED_CREDENTIALS_FILE=%s\nexport AWS_PROFILE=%s\nexport AWS_ENDPOINT_URL=%s\n",
		shellWord(c.ConfigFile), shellWord(c.CredentialsFile), shellWord(c.Profile), shellWord(c.Endpoint))
}

// shellWord quotes what a shell would take apart.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
