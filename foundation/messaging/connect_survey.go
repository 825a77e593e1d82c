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
	return c.answer(ctx, subject, func([]byte) ([]byte, error) { return answer() })
}

// AnswerOwn answers the questions on subject that are for this process, one after the other, until ctx
// ends; it returns the cause. answer returns nil for a question that is for another process, which
// answers it.
func (c *Conn) AnswerOwn(ctx context.Context, subject string, answer func(question []byte) ([]byte, error)) error {
	return c.answer(ctx, subject, answer)
}

func (c *Conn) answer(ctx context.Context, subject string, answer func(question []byte) ([]byte, error)) error {
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
			body, err := answer(question.Data)
			if err == nil && body != nil {
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

// AskOwner asks the one process that a question on subject is for (see AnswerOwn) and returns its answer. When
// nobody answers before ctx ends the error is the cause of ctx, or says that no process listens.
func (c *Conn) AskOwner(ctx context.Context, subject string, question []byte) ([]byte, error) {
	msg, err := c.nc.RequestWithContext(ctx, subject, question)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return nil, fmt.Errorf("messaging: ask %s: %w", subject, context.Cause(ctx))
	case err != nil:
		return nil, fmt.Errorf("messaging: ask %s: %w", subject, err)
	}
	return msg.Data, nil
}
