package main

import "context"

func holder(context.Context, []string) error      { return nil }
func groupHolder(context.Context, []string) error { return nil }
func (b *bench) crowd(context.Context) error      { return nil }
func (b *bench) handover(context.Context) error   { return nil }
func (b *bench) takeover(context.Context) error   { return nil }
func (b *bench) group(context.Context) error      { return nil }
func (b *bench) burst(context.Context) error      { return nil }
func (b *bench) outage(context.Context) error     { return nil }
