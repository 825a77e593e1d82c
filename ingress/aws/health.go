package awsingress

import (
	"encoding/json"
	"net/http"
)

// isHealth says whether a request asks whether the gateway works. No AWS service has the path.
func isHealth(r *http.Request) bool {
	return r.URL.Path == "/health" && (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Authorization") == ""
}

// health answers 200 {"status":"ok"}, or 503 with the reason.
func (p *Pipeline) health(w http.ResponseWriter) {
	status, answer := http.StatusOK, map[string]string{"status": "ok"}
	if err := p.opts.Ready(); err != nil {
		status, answer = http.StatusServiceUnavailable, map[string]string{"status": "unavailable", "reason": err.Error()}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // whoever asked is gone if it fails
}
