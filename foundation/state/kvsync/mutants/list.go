package main

import "slices"

// mutants are the planted bugs: each takes away a rule that somebody might take for superfluous.
func mutants() []mutant {
	return slices.Concat(contending(), holding(), releasing(), electing(), claiming(), grouping(), reported())
}

func contending() []mutant {
	return []mutant{
		{
			name: "contender waits for half of T", file: "acquire.go",
			old: "now.Sub(obs.since) < max(c.ttl, obs.ttl)", new: "now.Sub(obs.since) < max(c.ttl, obs.ttl)/2",
			killer: "TestLeaseTakeoverNeedsAFullOwnObservation",
		},
		{
			name: "contender ignores the record's time to live", file: "acquire.go",
			old: "now.Sub(obs.since) < max(c.ttl, obs.ttl)", new: "now.Sub(obs.since) < c.ttl",
			killer: "TestLeaseHonoursTheLongerTTLOfTheRecord",
		},
		{
			name: "a change does not restart the observation", file: "acquire.go",
			old:    "if obs.since.IsZero() || saw.rev != obs.rev || saw.rec.Nonce != obs.nonce {",
			new:    "if obs.since.IsZero() {",
			killer: "TestLeaseObservationRestartsOnARenewalAndIgnoresStaleReads",
		},
		{
			name: "an older read restarts the observation", file: "acquire.go",
			old: "if saw.rev < obs.rev {", new: "if saw.rev < obs.rev && false {",
			killer: "TestLeaseObservationRestartsOnARenewalAndIgnoresStaleReads",
		},
		{
			name: "contender counts by the wall clock", file: "acquire.go",
			old: "now.Sub(obs.since) < max(c.ttl, obs.ttl)", new: "now.Round(0).Sub(obs.since.Round(0)) < max(c.ttl, obs.ttl)",
			killer: "TestL03WallClockJumps",
		},
		{
			name: "any record of the holder's name is adopted", file: "acquire.go",
			old: ` && rec.Incarnation != "" && rec.Incarnation != c.incarnation && c.dead(rec.Incarnation):`, new: ":",
			killer: "TestL07EqualNames",
		},
		{
			name: "an own ghost is not known again", file: "acquire.go",
			old: `rec.Nonce != "" && slices.Contains(c.ghosts, rec.Nonce)`, new: "false",
			killer: "TestLeaseAdoptsItsGhost",
		},
		{
			name: "a transferred lease is anybody's", file: "acquire.go",
			old: "case rec.Holder == c.holder && rec.transferred():", new: "case rec.transferred():",
			killer: "TestLeaseTransfer",
		},
		{
			name: "the answer to a write is not looked for by its nonce", file: "settle.go",
			old: "saw.rec.Nonce == rec.Nonce:", new: "saw.rec.Nonce == rec.Nonce && false:",
			killer: "TestLeaseUnansweredAcquireIsFoundByItsNonce",
		},
		{
			name: "a grant that came too late counts", file: "acquire.go",
			old: "late := took >= validity(l.ttl)", new: "late := false && took >= validity(l.ttl)",
			killer: "TestLeaseGrantThatCameTooLateIsRefused",
		},
		{
			name: "a grant counts from its answer", file: "acquire.go",
			old: "sent: o.sent, lost", new: "sent: readClock(), lost",
			killer: "TestLeaseUnansweredAcquireIsFoundByItsNonce",
		},
		{
			name: "a store that went backwards is believed", file: "acquire.go",
			old: "o.rev <= floor", new: "o.rev <= floor && false",
			killer: "TestLeaseRefusesARegressedStore",
		},
		{
			name: "goroutines of one process are not excluded", file: "lease.go",
			old: "case l.busy || l.acq != nil && !l.acq.ended:", new: "case l.busy:",
			killer: "TestLeaseExcludesWithinItsProcess",
		},
		{
			name: "two goroutines acquire at once", file: "lease.go",
			old: "case l.busy || l.acq != nil && !l.acq.ended:", new: "case l.acq != nil && !l.acq.ended:",
			killer: "TestLeaseExcludesWithinItsProcess",
		},
	}
}

func holding() []mutant {
	return []mutant{
		{
			name: "a holder believes for T", file: "lease.go",
			old: "return ttl * 2 / 3", new: "return ttl",
			killer: "TestL14Blackhole",
		},
		{
			name: "a holder believes for T, as the simulation sees it", file: "lease.go",
			old: "return ttl * 2 / 3", new: "return ttl",
			killer: "TestSim", in: "kvsynctest",
		},
		{
			name: "validity is not computed at the call", file: "lease.go",
			old: "return max(0, validity(l.ttl)-l.acq.sent.heldSince(now))", new: "return validity(l.ttl)",
			killer: "TestL03SuspendedHost",
		},
		{
			name: "suspended time does not count", file: "clock.go",
			old: "elapsed += s", new: "elapsed += 0 * s",
			killer: "TestHeldSinceCountsTheLargestClock",
		},
		{
			name: "a wall clock set forward does not count", file: "clock.go",
			old: "max(now.at.Sub(i.at), now.at.Round(0).Sub(i.at.Round(0)))", new: "now.at.Sub(i.at)",
			killer: "TestL03WallClockJumps",
		},
		{
			name: "a renewal counts from its answer", file: "keeper.go",
			old: "a.rev, a.nonce, a.sent = rev, nonce, sent\n", new: "a.rev, a.nonce, a.sent = rev, nonce, now\n",
			killer: "TestLeaseRenewalCountsFromItsSend",
		},
		{
			name: "a refusal at the same revision is a loss", file: "keeper.go",
			old: "case saw.rev <= rev:", new: "case saw.rev < rev:",
			killer: "TestLeaseRefusalThatProvesNothingKeepsIt",
		},
		{
			name: "an earlier renewal that landed is another's", file: "keeper.go",
			old: "case ours && !saw.bad:", new: "case ours && saw.bad:",
			killer: "TestLeaseFindsAnEarlierRenewalThatLanded",
		},
		{
			name: "a failed renewal is not repeated", file: "keeper.go",
			old: "k.due = time.Now().Add(max(minRetry, min(retryAfter(k.ttl), valid/2)))", new: "k.due = time.Now().Add(k.ttl + 0*valid)",
			killer: "TestL16OneFailedRenewal",
		},
		{
			name: "the last retries come no sooner", file: "keeper.go",
			old: "min(retryAfter(k.ttl), valid/2)", new: "min(retryAfter(k.ttl), valid)",
			killer: "TestL16OneFailedRenewal",
		},
		{
			name: "a loss is not noticed at V", file: "keeper.go",
			old: "if valid <= 0 {", new: "if valid <= 0 && false {",
			killer: "TestLeaseIsLostAtVWhateverTheErrors",
		},
		{
			name: "who was replaced renews on", file: "keeper.go",
			old: "\tdefault:\n\t\tk.lose(k.acq, \"replaced\")", new: "\tdefault:",
			killer: "TestL21OneRevisionTakenTwice",
		},
	}
}

func releasing() []mutant {
	return []mutant{
		{
			name: "an unlock leaves the key", file: "lease.go",
			old: "if !l.erase(ctx, rev, pending) {", new: "if rev == 0 && !l.erase(ctx, rev, pending) {",
			killer: "TestLeaseExcludesAndFrees",
		},
		{
			name: "an old token unlocks", file: "lease.go",
			old:    "a == nil || a.ended || a.tok.Generation != tok.Generation {\n\t\tl.mu.Unlock()\n\t\treturn\n",
			new:    "a == nil || a.ended {\n\t\tl.mu.Unlock()\n\t\treturn\n",
			killer: "TestLeaseExcludesAndFrees",
		},
		{
			name: "an unlock does not know its own renewal", file: "lease.go",
			old:    "_, ours := pending[saw.rec.Nonce]\n\t\tswitch {\n\t\tcase saw.err != nil:\n\t\t\tfailures++",
			new:    "ours := pending == nil\n\t\tswitch {\n\t\tcase saw.err != nil:\n\t\t\tfailures++",
			killer: "TestL06UnlockRacesARenewal",
		},
		{
			name: "an unlock does not wait for a write in flight", file: "lease.go",
			old: "if !pause(ctx, l.jitter(wait)) {", new: "if pause(ctx, l.jitter(wait)) {",
			killer: "TestL06UnlockRacesARenewal",
		},
		{
			name: "an unlock waits for a stuck store", file: "lease.go",
			old: "context.WithTimeout(context.WithoutCancel(ctx), unlockBudget)", new: "context.WithTimeout(context.WithoutCancel(ctx), 10*unlockBudget)",
			killer: "TestL04StuckStore",
		},
		{
			name: "contexts outlive their acquisition", file: "lease.go",
			old: "\t\tcancel(ErrLost)\n\t}\n\tclear(a.cancels)", new: "\t\t_ = cancel\n\t}\n\tclear(a.cancels)",
			killer: "TestLeaseIsLostAtVWhateverTheErrors",
		},
		{
			name: "a break frees whoever holds the key", file: "observe.go",
			old: "if saw.absent || current != tok {", new: "if saw.absent {",
			killer: "TestObserveAndBreak",
		},
	}
}

func electing() []mutant {
	return []mutant{
		{
			name: "a waiter does not hear of a delete", file: "campaign.go",
			old: "case l.observe(u):", new: "case l.observe(u) && false:",
			killer: "TestLeaseLockWakesOnDeleteAndOnExpiry",
		},
		{
			name: "a waiter does not wake when a record expires", file: "campaign.go",
			old: "until = min(until, time.Until(at))", new: "_ = at",
			killer: "TestLeaseLockWakesOnDeleteAndOnExpiry",
		},
		{
			name: "a stuck call holds a campaign", file: "campaign.go",
			old: "ctx, cancel := context.WithTimeout(ctx, c.lease.ttl)", new: "ctx, cancel := context.WithCancel(ctx)",
			killer: "TestL05OutageEndsByItself",
		},
		{
			name: "a crowd does not spread out", file: "campaign.go",
			old: "if c.jitter == 0 {", new: "if c.jitter >= 0 {",
			killer: "TestElectionHandOverMakesNoHerd",
		},
		{
			name: "the key is released before the work has stopped", file: "election.go",
			old: "defer close(stopped)\n\t\tcallLost(lease, onLost)\n\t\t<-closed(work)", new: "defer close(stopped)\n\t\tcallLost(lease, onLost)",
			killer: "TestElectionOrderOnTheWayOut",
		},
		{
			name: "work that overruns is released early", file: "election.go",
			old: "lease.lapse(tok)", new: "lease.Unlock(context.WithoutCancel(ctx), tok)",
			killer: "TestL08WorkThatDoesNotStop",
		},
		{
			name: "onLost is not called for a loss", file: "election.go",
			old: "case <-lost:\n\t\t\tcancel(ErrLost)\n\t\t\tcallLost(lease, onLost)", new: "case <-lost:\n\t\t\tcancel(ErrLost)",
			killer: "TestL01RejectedRenewals",
		},
		{
			name: "a worker that exits goes on leading", file: "election.go",
			old: "err = errExited", new: "err = nil",
			killer: "TestL12WorkerDies",
		},
		{
			name: "who failed does not sit out", file: "election.go",
			old: "lease.Unlock(context.WithoutCancel(ctx), tok)\n\t\t\treturn false", new: "lease.Unlock(context.WithoutCancel(ctx), tok)\n\t\t\treturn true",
			killer: "TestElectionFailedWorkSitsOut",
		},
	}
}

func claiming() []mutant {
	return []mutant{
		{
			name: "a claim of an equal name is adopted", file: "claim.go",
			old: "saw.rec.Holder == c.holder && (saw.rec.Incarnation == inc || provenDead(c.store, saw.rec.Incarnation))", new: "saw.rec.Holder == c.holder && inc != \"\"",
			killer: "TestClaimAdoption",
		},
		{
			name: "an adopted claim changes its generation", file: "claim.go",
			old: "at, generation = saw.rev, saw.rec.token(saw.rev).Generation", new: "at, generation = saw.rev, 0",
			killer: "TestClaimAdoption",
		},
		{
			name: "a claim is taken over from whoever has it", file: "claim.go",
			old: "case saw.rec.token(saw.rev) != from:", new: "case saw.rec.token(saw.rev) != from && false:",
			killer: "TestClaimLifecycle",
		},
		{
			name: "an old token frees a claim", file: "claim.go",
			old: "case saw.absent, saw.bad, saw.rec.token(saw.rev) != tok:", new: "case saw.absent, saw.bad:",
			killer: "TestClaimLifecycle",
		},
		{
			name: "a claim is held twice in one process", file: "claim.go",
			old: "if ok && mine != (Token{}) {", new: "if ok && mine != (Token{}) && false {",
			killer: "TestClaimLifecycle",
		},
	}
}

func grouping() []mutant {
	return []mutant{
		{
			name: "a session is not marked dead", file: "session.go",
			old: "\t\tif !due {\n\t\t\treturn false, nil\n\t\t}", new: "\t\tif !due || !saw.absent {\n\t\t\treturn due, nil\n\t\t}",
			killer: "TestGroupSessionIsMarkedDeadByAWrite",
		},
		{
			name: "an absent session is believed", file: "session.go",
			old: "\t\tif !due {\n\t\t\treturn false, nil\n\t\t}", new: "\t\tif !due || saw.absent {\n\t\t\treturn due, nil\n\t\t}",
			killer: "TestGroupAbsentSessionIsProvenByAWrite",
		},
		{
			name: "a session is dead at first sight", file: "session.go",
			old: "return saw.rec, saw.rev, now.Sub(s.since) >= max(m.ttl, s.ttl)", new: "return saw.rec, saw.rev, now.Sub(s.since) >= 0",
			killer: "TestGroupMembersOfACrashedProcessAreTakenAfterT",
		},
		{
			name: "members outlive their session", file: "session.go",
			old: "g.endMembers(s)\n\t\t\tg.abandon", new: "g.abandon",
			killer: "TestGroupMembersOfACrashedProcessAreTakenAfterT",
		},
		{
			name: "a stuck store keeps a loss from members", file: "session.go",
			old: "context.WithCancel(s.lease.Context(context.Background()))", new: "context.WithCancel(context.Background())",
			killer: "TestL04StuckStore",
		},
		{
			name: "a broken member is not noticed", file: "session.go",
			old: "\t\t\tdefault:\n\t\t\t\tg.noticed(s, u)", new: "\t\t\tdefault:",
			killer: "TestGroupNoticesABrokenMember",
		},
		{
			name: "orphans are left", file: "session.go",
			old: "\t\t\tg.collect(ctx)\n", new: "",
			killer: "TestGroupDeletesWhatAnUnlockCouldNot",
		},
		{
			name: "a grant that was overtaken counts", file: "acquire.go",
			old: "if s != nil && l.pushed > o.rev {", new: "if s != nil && l.pushed > o.rev && false {",
			killer: "TestGroupMemberBrokenBeforeItsGrant",
		},
		{
			name: "a member is granted under a lost session", file: "acquire.go",
			old: "late = !s.lease.Held()", new: "late = false && !s.lease.Held()",
			killer: "TestGroupGrantNeedsItsSession",
		},
		{
			name: "a contender begins a session for nothing", file: "acquire.go",
			old: " || l.group != nil && !l.group.inSession()", new: "",
			killer: "TestGroupContenderWritesNothing",
		},
		{
			name: "who is forgotten meanwhile keeps the key", file: "lease.go",
			old: "err == nil && dead {", new: "err == nil && dead && false {",
			killer: "TestForgetEndsATryLockUnderWayAndAWaiter",
		},
	}
}

// reported are planted bugs that failures reported in public are checked with.
func reported() []mutant {
	return []mutant{
		{
			name: "terms of hundreds of contenders overlap", file: "acquire.go",
			old: "now.Sub(obs.since) < max(c.ttl, obs.ttl)", new: "now.Sub(obs.since) < max(c.ttl, obs.ttl)/2",
			killer: "TestL02HundredsOfContenders",
		},
		{
			name: "onLost is called without a term", file: "election.go",
			old: "case ctx.Err() != nil:\n\t\t\treturn\n\t\tcase lease.forgotten():", new: "case ctx.Err() != nil:\n\t\t\tcallLost(lease, onLost)\n\t\t\treturn\n\t\tcase lease.forgotten():",
			killer: "TestL09CancelledBeforeItLed",
		},
		{
			name: "a time to live of zero is taken", file: "lease.go",
			old: "if ttl <= 0 {", new: "if ttl < 0 {",
			killer: "TestL10OnlyTCanBeChosen",
		},
		{
			name: "a waiter does not hear that it is forgotten", file: "campaign.go",
			old: "case <-l.gone:", new: "case <-make(chan struct{}):",
			killer: "TestL11WaiterOutlivesItsSession",
		},
		{
			name: "a watch that is opened again restarts the observation", file: "campaign.go",
			old: "if u.Rev == l.obs.rev && !l.obs.since.IsZero() {", new: "if u.Rev == l.obs.rev && l.obs.since.IsZero() {",
			killer: "TestL13StoreLeaderChanges",
		},
		{
			name: "a lease stays busy after it was acquired", file: "lease.go",
			old: "l.busy = false\n", new: "l.busy = l.acq != nil\n",
			killer: "TestL15StuckAlreadyHeld",
		},
		{
			name: "a ghost blocks its maker", file: "acquire.go",
			old: `rec.Nonce != "" && slices.Contains(c.ghosts, rec.Nonce)`, new: "false",
			killer: "TestL17Ghosts",
		},
		{
			name: "a refusal over nothing costs a renewal", file: "keeper.go",
			old: "if k.quick >= quickRetries {", new: "if k.quick >= 0*quickRetries {",
			killer: "TestL20RefusedAtTheRightRevision",
		},
	}
}
