package awsingress

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"mime"
	"net/http"

	"github.com/mulgadc/spinifex/foundation/aws"
)

// unknownOperation is the JSON protocols' code for what nobody serves.
const unknownOperation = "UnknownOperationException"

// foreignService is the answer to a request for a service that the cloud has not.
func foreignService(name string) *aws.Error {
	return &aws.Error{
		Code: unknownOperation, Status: http.StatusBadRequest,
		Message: fmt.Sprintf("The service '%s' is not served by this cloud.", bounded(name)),
	}
}

// errorForm is how a kind of client reads errors.
type errorForm int

const (
	formJSON errorForm = iota
	formQuery
	formEC2
	formS3
)

// sendForeign writes an error where no API model says its form: it takes the one that the client
// most likely reads, by the service it named and the shape of its request.
func sendForeign(w http.ResponseWriter, r *http.Request, service string, e *aws.Error, requestID string) error {
	status := e.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	w.Header().Set("X-Amzn-Requestid", requestID)
	var body []byte
	var err error
	contentType := "text/xml"
	switch formOf(r, service) {
	case formQuery:
		body, err = xml.Marshal(queryError{Error: xmlError{Type: sender(status), Code: xmlCode(e.Code), Message: e.Message}, RequestID: requestID})
	case formEC2:
		body, err = xml.Marshal(ec2Error{Errors: []xmlError{{Code: xmlCode(e.Code), Message: e.Message}}, RequestID: requestID})
	case formS3:
		w.Header().Set("X-Amz-Request-Id", requestID)
		code := e.Code
		if code == unknownOperation {
			code = "NotImplemented"
		}
		body, err = xml.Marshal(s3Error{Code: code, Message: e.Message, RequestID: requestID})
	default:
		contentType = "application/json"
		w.Header().Set("X-Amzn-Errortype", e.Code)
		body, err = json.Marshal(map[string]string{"__type": e.Code, "message": e.Message, "Message": e.Message})
	}
	if err != nil {
		return fmt.Errorf("encode an error: %w", err)
	}
	if contentType == "text/xml" {
		body = append([]byte(xml.Header), body...)
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, err = w.Write(body)
	return err
}

// formOf guesses the form.
func formOf(r *http.Request, service string) errorForm {
	switch service {
	case "ec2":
		return formEC2
	case "s3", "s3express", "s3-outposts":
		return formS3
	case "cloudfront":
		return formQuery // REST-XML has the same errors
	}
	if r.Header.Get("X-Amz-Target") != "" {
		return formJSON
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	isForm := err == nil && media == "application/x-www-form-urlencoded"
	if isForm || r.URL.Query().Has("Action") {
		return formQuery
	}
	return formJSON
}

// xmlCode is the code of the XML protocols for what the JSON ones call otherwise.
func xmlCode(code string) string {
	if code == unknownOperation {
		return "InvalidAction"
	}
	return code
}

func sender(status int) string {
	if status >= 500 {
		return "Receiver"
	}
	return "Sender"
}

type xmlError struct {
	Type    string `xml:"Type,omitempty"`
	Code    string `xml:"Code"`
	Message string `xml:"Message"`
}

type queryError struct {
	XMLName   xml.Name `xml:"ErrorResponse"`
	Error     xmlError `xml:"Error"`
	RequestID string   `xml:"RequestId"`
}

type ec2Error struct {
	XMLName   xml.Name   `xml:"Response"`
	Errors    []xmlError `xml:"Errors>Error"`
	RequestID string     `xml:"RequestID"`
}

type s3Error struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string   `xml:"Code"`
	Message   string   `xml:"Message"`
	RequestID string   `xml:"RequestId"`
}
