package messaging

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// maxSurvey bounds the answers to one Survey.
const maxSurvey = 4096

// AnswerSurveys answers every question on subject, next to all other processes that do, until ctx
// ends; it returns the cause. answer must not block and must not take long.
func (c *Conn) AnswerSurveys(ctx context.Context, subject string, answer func() ([]byte, error)) error {
	questions := make(chan *nats.Msg, 16)
	sub, err := c.nc.ChanSubscribe(subject, questions)
	if err != nil {
		return fmt.Errorf("messaging: answer %s: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone, and the subscription with it
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.closed:
			return fmt.Errorf("messaging: answer %s: %w", subject, nats.ErrConnectionClosed)
		case question := <-questions:
			body, err := answer()
			if err == nil {
				err = question.Respond(body)
			}
			if err != nil {
				c.log.Warn("question not answered", "subject", subject, "error", err)
			}
		}
	}
}

// Survey asks every process that answers on subject and returns what came within wait. That nobody
// answers is no error.
func (c *Conn) Survey(ctx context.Context, subject string, wait time.Duration) ([][]byte, error) {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("messaging: ask %s: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishRequest(subject, inbox, nil); err != nil {
		return nil, fmt.Errorf("messaging: ask %s: %w", subject, err)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var answers [][]byte
	for len(answers) < maxSurvey {
		msg, err := sub.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
			return answers, nil
		case err != nil:
			return answers, fmt.Errorf("messaging: ask %s: %w", subject, err)
		}
		answers = append(answers, msg.Data)
	}
	return answers, nil
}
