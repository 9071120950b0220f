/*
 * The session lease, the identity, the companions and GuardTx. docs/internals/model.md says how to read this, and which function
 * of the code each action stands for.
 *
 * Nothing is forced to happen. A message may arrive at any later time, or never, and a process may do nothing for as long
 * as it likes: so silence, delay, partitions and frozen processes need no actions of their own. That shows what never happens. In the
 * configurations that show what happens at last (LIVE), each process of the model that can always act does act, and what
 * would hinder that has actions of its own: a client is cut off, or does nothing any more.
 *
 * A configuration is chosen by the macros below. A mutation, which leaves out one step of the argument, is chosen by the
 * variable PGLOCK_MUTATION of the environment.
 */

#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef KEYS
#define KEYS 1
#endif
#ifndef TXS
#define TXS 1          /* guarded transactions of each client */
#endif
#ifndef HANDOFFS
#define HANDOFFS 0     /* of each client */
#endif
#ifndef KILLS
#define KILLS 1        /* sessions that the server ends */
#endif
#ifndef TICKS
#define TICKS 1        /* 0: no time passes, and sessions end for other reasons only */
#endif
#ifndef DRIFTS
#define DRIFTS 1       /* how often the server's clock gains a tick */
#endif
#ifndef JUMPS
#define JUMPS 0        /* how often the server's clock is set forward past every lease */
#endif
#ifndef STRANGERS
#define STRANGERS 0    /* a role that waits for an identity */
#endif
#ifndef FAILOVERS
#define FAILOVERS 0    /* the old primary lives on */
#endif
#ifndef SHARES
#define SHARES 0       /* locks may be shared */
#endif
#ifndef TRIES
#define TRIES 1        /* TryLock beside Lock */
#endif
#ifndef CANCELS
#define CANCELS 1      /* contexts of waiting calls end */
#endif

#ifndef LIVE
#define LIVE 0         /* 1: what must happen happens at last, and holders unlock. 2: the same, but holders need not unlock */
#endif
#ifndef BEATS
#define BEATS 1        /* in LIVE=1: heartbeats of a holder, before it unlocks */
#endif
#ifndef SILENCES
#define SILENCES LIVE  /* clients that are cut off or frozen for good, in LIVE */
#endif

#define TXN (CLIENTS * TXS)
#ifndef LEASE
#define LEASE 4
#endif
#define TRUST (LEASE - 1) /* how long after sending a statement the client trusts the session, once it is answered */
#define ALL ((1 << KEYS) - 1)

/* The mutations. internal/model/plan.go has their names and what each leaves out. */
#define NO_MARGIN 1
#define FROM_RECEIPT 2
#define WAIT_FROM_RECEIPT 3
#define NO_CLOCK 4
#define NO_CLEAN_UP 5
#define NO_RETRY 6
#define NO_TAKE_BACK 7
#define NO_RECONCILE 8
#define NO_AWAIT 9
#define NO_COMPANION 10
#define NO_IDENTITY 11
#define NO_PROOF 12
#define IDENTITY_LAST 13
#define NO_PROOF_IDENTITY_LAST 14
#define NO_PROOF_ALONE 15
#define NO_ABORT 16
#define NO_LAST_LOOK 17
#define FIRST_OF_SESSION 18
#define ONE_KIND 19
#define KILLS_COUNT 20
#define JUMPS_COUNT 21
#define SERVERS_COUNT 22
#define UNGUARDED 23
#define NO_LEASE_END 24
#define NO_DEADLINE 25
#define FORGETS_GRANT 26
#define CANCELS_ONCE 27
#define TX_STAYS 28
c_decl { \#include <stdlib.h> };
byte mutation;
#define is(m) (mutation == m)
#define noProof (is(NO_PROOF) || is(NO_PROOF_ALONE) || is(NO_PROOF_IDENTITY_LAST) || is(UNGUARDED))
#define identityLast (is(IDENTITY_LAST) || is(NO_PROOF_IDENTITY_LAST))

/* What the caller of Lock is at. */
#define NEW 0
#define ASKED 1        /* Lock or TryLock has not returned */
#define LEAVING 2      /* its context has ended, and the server has been asked to cancel */
#define CLEANING 3     /* the wait was cancelled; keys may be left */
#define UNSETTLED 4    /* a try returned ErrUnavailable; its answer is outstanding */
#define HELD 5
#define RELEASING 6
#define OVER 7

/* How it ended. */
#define UNLOCKED 1
#define REFUSED 2      /* an error that says that nothing is held */
#define UNAVAILABLE 3
#define LOST 4

/* A statement on the lock session, of which one is outstanding at a time, and where it is. */
#define WAIT 1
#define TRY 2
#define BEAT 3
#define PROVE 4
#define RELEASE 5
#define CLEAN 6
#define SENT 1
#define RUNNING 2
#define ANSWERED 3
#define VANISHED 4

/* Answers. */
#define OK 1
#define GRANTED 2
#define TAKEN 3        /* held elsewhere */
#define SOME 4         /* a try got only some of its keys */
#define CANCELLED 5

/* The server process of the session. */
#define NONE 0
#define READY 1        /* idle_session_timeout runs */
#define WAITS 2        /* in the queue of a key */
#define ENDING 3       /* it has said FATAL, and frees nothing yet */
#define PARTLY 4       /* the first partition of the lock table is free */

typedef Session {
	byte phase; byte end; bit shared;
	byte want; byte hold;           /* keys; hold is what the server says */
	byte out; byte at; byte answer; /* the statement */
	byte left;                      /* for how long the client trusts the session */
	byte age;                       /* since the statement was sent */
	byte process; byte idle;        /* on the server; idle is what is left of the lease */
	bit closed;                     /* the client has closed its socket, or does not exist any more */
	bit cancel;                     /* a cancel request is on its way */
	bit guarded;                    /* a transaction of this Lock was guarded */
	bit server;
	byte handoffs;
	bit cut;                        /* in LIVE: no message passes between client and server any more */
	bit frozen;                     /* the same, and the client does nothing any more */
	bit asked;                      /* a cancel request was sent: only for a mutation */
	byte beats;
	byte grant; byte passed;        /* of history: the order of grants, and the last that guarded a transaction */
	bit killed                      /* of history */
};
Session s[CLIENTS];

#if TXS
/* What the caller of GuardTx is at. */
#define NOT_BEGUN 0
#define GUARDING 1
#define UNPROVED 2
#define PROVING 3
#define PASSED 4
#define ABORTING 5
#define COMMITTING 6
#define ENDED 7

/* The transaction on the server. */
#define OPEN 1         /* its guard is sent, and waits for earlier ones */
#define ALONE 2        /* they have ended */
#define COMPANION 3    /* it holds the companion */
#define GUARDED 4      /* it has found the identity held */

typedef Tx { byte phase; byte state; byte grant; bit first; bit server };
Tx t[TXN];
#endif

byte grants;           /* of history: two for each grant, so that a handoff has a number */
byte kills = KILLS;
byte drifts = DRIFTS;
byte jumps = JUMPS;
byte silences = SILENCES;
byte stranger;         /* 1 + i: waits for the identity of i. 1 + CLIENTS + i: holds it */
bit primary;
bit jumped;
/* For loops, which leave them as they were: a search is no state of its own. */
byte j = CLIENTS;
byte x = TXN;
byte k = KEYS;
bit found;

#define key(i) (1 << (i))

/* Conflicts with what session i wants. */
#define rivals(i, j) (i != j && s[i].server == s[j].server && !(s[i].shared && s[j].shared))

inline findRival(me, mask) { /* found: another session of the server holds a key of mask */
	found = false;
	for (j : 0 .. CLIENTS - 1) {
		if
		:: rivals(me, j) && (s[j].hold & (mask)) -> found = true
		:: else
		fi
	}
}

#if TXS
#define owner(a) ((a) / TXS)
#define companionOf(a) (t[a].state == COMPANION || t[a].state == GUARDED && !is(NO_COMPANION) && !is(UNGUARDED))
#define conflictTx(a, b) (a != b && t[a].server == t[b].server && (s[owner(a)].want & s[owner(b)].want) != 0)

inline findEarlier(me) { /* found: a transaction holds a companion that this one must wait for */
	found = false;
	for (x : 0 .. TXN - 1) {
		if
		:: conflictTx(me, x) && companionOf(x) && (!s[owner(x)].shared || (!s[owner(me)].shared && !is(ONE_KIND))) -> found = true
		:: else
		fi
	}
}

/* Whether the two must not be at the same time. Those of one Lock may. */
#define exclude(a, b) (conflictTx(a, b) && t[a].grant != t[b].grant && !(s[owner(a)].shared && s[owner(b)].shared))

inline passes(me) { /* GuardTx returns nil */
	for (x : 0 .. TXN - 1) {
		if
		:: exclude(me, x) && (t[x].phase == PASSED || t[x].phase == COMMITTING) ->
			printf("VIOLATION InOrder\n");
			assert(false)
		:: else
		fi
	}
	t[me].phase = PASSED;
	s[owner(me)].passed = t[me].grant;
}

inline commits(me) {
	for (x : 0 .. TXN - 1) {
		if
		:: conflictTx(me, x) && s[owner(x)].passed > t[me].grant && !(s[owner(me)].shared && s[owner(x)].shared) ->
			printf("VIOLATION InOrder\n");
			assert(false)
		:: else
		fi
	}
}
#endif

#define holds(i) (s[i].phase == HELD && s[i].left > 0)    /* Err returns nil */
#define looksHeld(i) (s[i].phase == HELD && (s[i].left > 0 || is(NO_CLOCK)))

inline send(me, what) {
	s[me].out = what; s[me].at = SENT; s[me].answer = 0; s[me].age = 0;
}

inline forgetStatement(me) { s[me].out = 0; s[me].at = 0; s[me].answer = 0; s[me].age = 0 }

inline answers(me, what) {
	s[me].at = ANSWERED; s[me].answer = what; s[me].process = READY; s[me].idle = (s[me].closed -> 0 : LEASE);
	if
	:: s[me].closed -> forgetStatement(me)
	:: else
	fi
}

#if TXS == 0
#define proofAwaited(i) false
#define guards(i) false
#elif TXS == 1
#define proofAwaited(i) (t[i].phase == PROVING)
#define guards(i) (t[i].phase >= GUARDING && t[i].phase <= PROVING)
#else
#define proofAwaited(i) (t[TXS * (i)].phase == PROVING || t[TXS * (i) + 1].phase == PROVING)
#define guards(i) ((t[TXS * (i)].phase >= GUARDING && t[TXS * (i)].phase <= PROVING) || \
	(t[TXS * (i) + 1].phase >= GUARDING && t[TXS * (i) + 1].phase <= PROVING))
#endif

/* The Lock or the call is over for its caller. A session that was not closed is given back. */
inline ends(me, how) {
	s[me].phase = OVER; s[me].end = how; s[me].left = 0; s[me].guarded = 0;
	if
	:: s[me].closed || s[me].hold == 0 -> s[me].idle = 0
	:: else
	fi
	if
	:: !s[me].closed && s[me].hold == 0 && !guards(me) -> s[me].process = NONE; s[me].cancel = 0
	:: else
	fi
}

#define trust (is(NO_MARGIN) -> LEASE : TRUST)

inline renew(me) {
	if
	:: is(FROM_RECEIPT) || (is(WAIT_FROM_RECEIPT) && s[me].out == WAIT) -> s[me].left = trust
	:: else ->
		if
		:: s[me].age < trust && trust - s[me].age > s[me].left -> s[me].left = trust - s[me].age
		:: else
		fi
	fi
}

#if TXS
inline aborts(me) { /* GuardTx returns an error, and has made the transaction fail; its caller commits all the same */
	t[me].phase = (is(NO_ABORT) -> COMMITTING : ABORTING)
}

inline proved(me) { /* the session has answered to the guard */
	s[owner(me)].guarded = (t[me].grant == s[owner(me)].grant -> 1 : s[owner(me)].guarded);
	if
	:: t[me].grant == s[owner(me)].grant && holds(owner(me)) || is(NO_LAST_LOOK) || is(UNGUARDED) -> passes(me)
	:: else -> aborts(me)
	fi
}
#endif

inline ask(me, what, keys, sh) {
	s[me].phase = ASKED; s[me].want = keys; s[me].shared = sh;
	s[me].process = READY; s[me].idle = LEASE; s[me].server = primary;
	send(me, what);
	printf("client %d asks for keys %d, by statement %d, shared %d\n", me, keys, what, sh)
}

/* Clients are alike, so they begin in the order of their numbers. */
#define mayBegin(i) (s[i].phase == NEW && (i == 0 || s[(i + CLIENTS - 1) % CLIENTS].phase != NEW))

#define arrived(i) (s[i].at == ANSWERED && !s[i].cut)

#if LIVE
/* What the client may learn: FATAL or EOF; by its clock, that its lease is over; by a deadline, or by a look of another
 * session, that the server is silent. */
#define learnsEnd(i) (!s[i].cut && (s[i].process == NONE || s[i].process >= ENDING))
#define mayEnd(i) (learnsEnd(i) || (s[i].phase == HELD && s[i].left == 0) || \
	(s[i].cut && s[i].phase != HELD && !is(NO_DEADLINE)))
#define mayBeat(i) (LIVE == 2 || s[i].beats < BEATS)
#else
#define learnsEnd(i) false
#define mayEnd(i) true
#define mayBeat(i) true
#endif

#define keeps(i) (s[i].phase == HELD || (s[i].phase == LEAVING && is(FORGETS_GRANT)))

proctype client(byte me)
{
	do
	:: d_step { mayBegin(me) -> ask(me, WAIT, ALL, 0) }
#if KEYS > 1
	:: d_step { mayBegin(me) -> ask(me, WAIT, 1, 0) }
	:: d_step { mayBegin(me) -> ask(me, WAIT, 2, 0) }
#endif
#if SHARES
	:: d_step { mayBegin(me) -> ask(me, WAIT, ALL, 1) }
#endif
#if TRIES
	:: d_step { mayBegin(me) -> ask(me, TRY, ALL, 0) }
	:: d_step { s[me].phase == ASKED && s[me].out == TRY && s[me].at != VANISHED ->
		s[me].phase = UNSETTLED; s[me].left = 0;
		printf("client %d leaves its try: ErrUnavailable, and the key is busy\n", me) }
#endif
#if CANCELS
	:: d_step { s[me].phase == ASKED && s[me].out == WAIT && s[me].at != VANISHED ->
		s[me].phase = LEAVING;
		printf("client %d: the context of its wait ends\n", me) }
	:: d_step { s[me].phase == LEAVING && !s[me].cancel && s[me].at != VANISHED && !s[me].asked ->
		s[me].cancel = 1; s[me].asked = is(CANCELS_ONCE);
		printf("client %d sends a cancel request\n", me) }
#endif

	/* The answer to what Lock asked. */
	:: d_step { arrived(me) && (s[me].out == WAIT || s[me].out == TRY) && !s[me].closed ->
		if
		:: s[me].answer == GRANTED && s[me].phase == LEAVING && is(FORGETS_GRANT) -> renew(me)
		:: s[me].answer == GRANTED && s[me].phase != UNSETTLED && !(s[me].phase == LEAVING && is(FORGETS_GRANT)) ->
			renew(me); s[me].phase = HELD;
			printf("client %d gets the answer: granted; it trusts it for %d\n", me, s[me].left)
		:: s[me].answer == GRANTED || s[me].answer == SOME ->
			if
			:: is(NO_TAKE_BACK) -> ends(me, REFUSED)
			:: else -> s[me].phase = RELEASING; s[me].end = REFUSED; s[me].left = 0
			fi;
			printf("client %d gets the answer to its try, and must not keep what it got\n", me)
		:: s[me].answer == TAKEN ->
			ends(me, REFUSED);
			printf("client %d gets the answer: held elsewhere\n", me)
		:: s[me].answer == CANCELLED ->
			if
			:: is(NO_CLEAN_UP) -> ends(me, REFUSED)
			:: else -> s[me].phase = CLEANING; s[me].left = 0
			fi;
			printf("client %d gets the answer: cancelled\n", me)
		fi;
		forgetStatement(me) }

	/* What it asks next. */
	:: d_step { keeps(me) && s[me].out == 0 && s[me].left > 0 && s[me].left < TRUST && mayBeat(me) ->
		send(me, BEAT); s[me].beats = s[me].beats + (LIVE == 1);
		printf("client %d sends a heartbeat\n", me) }
	:: d_step { s[me].phase == CLEANING && s[me].out == 0 && !s[me].closed ->
		send(me, CLEAN);
		printf("client %d sends: unlock all\n", me) }
	:: d_step { s[me].phase == RELEASING && s[me].out == 0 && !s[me].closed ->
		send(me, RELEASE);
		printf("client %d sends the release\n", me) }
	:: d_step { arrived(me) && (s[me].out == BEAT || (s[me].out == PROVE && !proofAwaited(me))) && !s[me].closed ->
		if
		:: keeps(me) -> renew(me)
		:: else
		fi;
		forgetStatement(me);
		printf("client %d gets the answer to its heartbeat, and trusts the session for %d\n", me, s[me].left) }
	:: d_step { arrived(me) && s[me].out == CLEAN && !s[me].closed ->
		if
		:: s[me].answer == OK || is(NO_RETRY) -> ends(me, REFUSED)
		:: else
		fi;
		forgetStatement(me);
		printf("client %d gets the answer to: unlock all\n", me) }
	:: d_step { arrived(me) && s[me].out == RELEASE && !s[me].closed ->
		if
		:: s[me].answer == OK || is(NO_RECONCILE) -> ends(me, s[me].end)
		:: else
		fi;
		forgetStatement(me);
		printf("client %d gets the answer to its release\n", me) }

	/* Unlock, and MaxHold. */
	:: d_step { holds(me) ->
		s[me].phase = RELEASING; s[me].end = UNLOCKED; s[me].left = 0; s[me].guarded = 0;
		printf("client %d: Unlock\n", me) }
#if HANDOFFS
	:: d_step { holds(me) && s[me].handoffs < HANDOFFS ->
		s[me].handoffs++; s[me].grant++; s[me].guarded = (is(FIRST_OF_SESSION) -> s[me].guarded : 0);
		printf("client %d hands its lock off to another goroutine\n", me) }
#endif

	/* The session has ended: FATAL, EOF, the lease is over, Close, or the process dies. */
	:: d_step { s[me].phase != NEW && s[me].phase != OVER && mayEnd(me) ->
		s[me].closed = 1; s[me].cancel = 0;
		ends(me, (s[me].phase == HELD -> LOST : UNAVAILABLE));
		if
		:: s[me].at == ANSWERED || s[me].at == VANISHED -> forgetStatement(me)
		:: else
		fi;
		printf("client %d ends its session\n", me) }
#if LIVE
	:: d_step { silences > 0 && s[me].phase != NEW && s[me].phase != OVER ->
		silences--; s[me].cut = 1;
		printf("client %d is cut off from the server\n", me) }
	:: d_step { silences > 0 && s[me].phase != NEW && s[me].phase != OVER ->
		silences--; s[me].cut = 1; s[me].frozen = 1;
		printf("client %d is frozen, or its host is dead\n", me) } -> break
#endif
	od
}

inline dies(i) {
	s[i].process = ENDING; s[i].idle = 0;
	if
	:: s[i].at == SENT || s[i].at == RUNNING -> s[i].at = VANISHED; s[i].answer = 0; s[i].age = 0
	:: else
	fi
	if
	:: s[i].closed -> forgetStatement(i)
	:: else
	fi
}

#define taken(i) (s[i].at == SENT && s[i].process == READY && !s[i].cut)

proctype session(byte me)
{
	do
	:: d_step { taken(me) && s[me].out == WAIT ->
		s[me].at = RUNNING; s[me].process = WAITS; s[me].idle = 0;
		printf("server: session %d waits\n", me) }
#if TRIES
	:: d_step { taken(me) && s[me].out == TRY ->
		for (k : 0 .. KEYS - 1) {
			if
			:: s[me].want & key(k) ->
				findRival(me, key(k));
				if
				:: found -> skip
				:: else -> s[me].hold = s[me].hold | key(k)
				fi;
				found = false
			:: else
			fi
		}
		if
		:: s[me].hold == s[me].want -> grants = grants + 2; s[me].grant = grants; answers(me, GRANTED)
		:: s[me].hold == 0 -> answers(me, TAKEN)
		:: else -> answers(me, SOME)
		fi;
		printf("server: session %d tries, and holds keys %d\n", me, s[me].hold) }
#endif
	:: d_step { taken(me) && (s[me].out == BEAT || s[me].out == PROVE) ->
		answers(me, OK);
		printf("server: session %d answers\n", me) }
	:: d_step { taken(me) && (s[me].out == RELEASE || s[me].out == CLEAN) ->
		s[me].hold = 0; answers(me, OK);
		printf("server: session %d unlocks\n", me) }
	:: d_step { taken(me) && (s[me].out == RELEASE || s[me].out == CLEAN) && s[me].cancel ->
		s[me].cancel = 0; answers(me, CANCELLED);
		printf("server: a late cancel request hits the unlocking of session %d\n", me) }

	/* The queue of a key. The order in it does not matter for what must not happen. */
	:: d_step { s[me].process == WAITS ->
		for (k : 0 .. KEYS - 1) {
			if
			:: s[me].want & key(k) & ~s[me].hold -> break
			:: else
			fi
		}
		findRival(me, key(k));
		if
		:: found -> found = false; k = KEYS
		:: else ->
			s[me].hold = s[me].hold | key(k);
			printf("server: session %d gets key %d\n", me, k);
			k = KEYS;
			if
			:: s[me].hold == s[me].want -> grants = grants + 2; s[me].grant = grants; answers(me, GRANTED)
			:: else
			fi
		fi }

	/* The end of the session. */
	:: d_step { s[me].process == READY && s[me].idle == 0 && (!s[me].closed || s[me].cut) && !is(NO_LEASE_END) ->
		dies(me);
		printf("server: idle_session_timeout ends session %d\n", me) }
	:: d_step { s[me].closed && !s[me].cut && (s[me].process == READY || s[me].process == WAITS) ->
		dies(me);
		printf("server: session %d sees that its client is gone\n", me) }
	:: d_step { kills > 0 && s[me].phase != OVER && (s[me].process == READY || s[me].process == WAITS) ->
		kills--; s[me].killed = 1;
		dies(me);
		printf("server: session %d is terminated\n", me) }
	:: d_step { s[me].process == ENDING ->
		s[me].process = PARTLY;
		if
		:: identityLast -> s[me].hold = 0; printf("server: session %d frees its keys\n", me)
		:: else ->
			stranger = (stranger == 1 + me -> 1 + CLIENTS + me : stranger);
			printf("server: session %d frees its identity\n", me)
		fi }
	:: d_step { s[me].process == PARTLY ->
		s[me].process = NONE; s[me].hold = 0;
		stranger = (stranger == 1 + me -> 1 + CLIENTS + me : stranger);
		printf("server: session %d has ended\n", me) }
	od
}

#if CANCELS
/* Each cancel request has a connection of its own. */
proctype cancels(byte me)
{
	do
	:: d_step { s[me].cancel && s[me].process != NONE && !s[me].cut ->
		s[me].cancel = 0;
		if
		:: s[me].process == WAITS -> answers(me, CANCELLED)
		:: else
		fi;
		printf("server: a cancel request for session %d arrives\n", me) }
	od
}
#endif
#if TXS
#define mine owner(me)

/* The first transaction of a Lock goes ahead of the others. */
inline findFirst() {
	found = false;
	for (x : 0 .. TXN - 1) {
		if
		:: x != me && owner(x) == mine && t[x].grant == s[mine].grant && t[x].first && t[x].phase > NOT_BEGUN && t[x].phase < PASSED ->
			found = true
		:: else
		fi
	}
}

inline begin(where) {
	findFirst();
	if
	:: found -> found = false
	:: else ->
		t[me].phase = GUARDING; t[me].server = where; t[me].grant = s[mine].grant; t[me].first = !s[mine].guarded;
		t[me].state = (t[me].first && !is(NO_AWAIT) && !is(UNGUARDED) -> OPEN : ALONE);
		printf("client %d: GuardTx of transaction %d on server %d\n", mine, me, where)
	fi
}

/* Transactions of a client are alike too. */
#define mayGuard (holds(mine) && t[me].phase == NOT_BEGUN && (me % TXS == 0 || t[(me + TXN - 1) % TXN].phase != NOT_BEGUN))

/* A transaction that is over. */
inline finishes() { t[me].phase = ENDED; t[me].state = 0; t[me].first = 0 }

#define identityHeld ((s[mine].process != NONE && (s[mine].process != PARTLY || identityLast)) || stranger == 1 + CLIENTS + mine)
#define identitySeen ((t[me].server == s[mine].server && identityHeld) || is(NO_IDENTITY) || is(UNGUARDED))

#if LIVE
#define mayRollBack(i) (s[i].cut && !is(TX_STAYS))
#else
#define mayRollBack(i) true
#endif

proctype transaction(byte me)
{
	do
	:: d_step { mayGuard -> begin(primary) }
#if FAILOVERS
	:: d_step { mayGuard && primary == 1 -> begin(0) }
#endif

	/* On the server. */
	:: d_step { t[me].state == OPEN ->
		findEarlier(me);
		if
		:: found -> found = false
		:: else ->
			t[me].state = ALONE;
			printf("server: transaction %d finds the earlier ones ended\n", me)
		fi }
	:: d_step { t[me].state == ALONE ->
		t[me].state = COMPANION;
		printf("server: transaction %d has its companion\n", me) }
	:: d_step { t[me].state == COMPANION ->
		if
		:: identitySeen ->
			t[me].state = GUARDED;
			printf("server: transaction %d finds the identity held\n", me)
		:: else ->
			finishes();
			printf("server: transaction %d finds the identity free, and fails\n", me)
		fi }

	/* The client has the answer. */
	:: d_step { t[me].phase == GUARDING && t[me].state == GUARDED && !s[mine].cut ->
		t[me].phase = UNPROVED;
		printf("client %d: the statement of the guard of transaction %d is answered\n", mine, me);
		if
		:: noProof -> proved(me)
		:: else
		fi }
	:: d_step { t[me].phase == UNPROVED && s[mine].out == 0 && !s[mine].closed && !s[mine].frozen ->
		t[me].phase = PROVING; send(mine, PROVE);
		printf("client %d asks its session whether it lives, for transaction %d\n", mine, me) }
	:: d_step { t[me].phase == PROVING && s[mine].out == PROVE && arrived(mine) && !s[mine].closed ->
		if
		:: s[mine].phase == HELD -> renew(mine)
		:: else
		fi;
		forgetStatement(mine);
		printf("client %d: its session lives, for transaction %d\n", mine, me);
		proved(me) }
	:: d_step { (t[me].phase == UNPROVED || t[me].phase == PROVING) && (s[mine].closed || learnsEnd(mine)) && !s[mine].frozen ->
		aborts(me);
		printf("client %d: the session is lost, and transaction %d is made to fail\n", mine, me) }
	:: d_step { t[me].phase == PASSED && !s[mine].frozen ->
		t[me].phase = COMMITTING;
		printf("client %d commits transaction %d\n", mine, me) }

	/* On the server again. */
	:: d_step { t[me].phase == ABORTING && !s[mine].cut ->
		finishes();
		printf("server: transaction %d is made to fail\n", me) }
	:: d_step { t[me].phase == COMMITTING && !s[mine].cut ->
		printf("server: transaction %d commits\n", me);
		commits(me);
		finishes() }
	:: d_step { t[me].state != 0 && mayRollBack(mine) ->
		finishes();
		printf("server: transaction %d is rolled back, since its connection has ended\n", me) }
	od
}
#undef mine
#endif

proctype world()
{
	do
	:: d_step { TICKS ->
		for (j : 0 .. CLIENTS - 1) {
			s[j].left = (s[j].left > 0 -> s[j].left - 1 : 0);
			s[j].age = (s[j].out != 0 && s[j].at != VANISHED && s[j].age < trust -> s[j].age + 1 : s[j].age);
			s[j].idle = (s[j].idle > 0 -> s[j].idle - 1 : 0)
		}
		printf("a tick\n") }
	:: d_step { drifts > 0 ->
		drifts--;
		for (j : 0 .. CLIENTS - 1) {
			s[j].idle = (s[j].idle > 0 -> s[j].idle - 1 : 0)
		}
		printf("a tick of the server's clock alone\n") }
#if JUMPS
	:: d_step { jumps > 0 ->
		jumps--; jumped = 1;
		for (j : 0 .. CLIENTS - 1) {
			s[j].idle = 0
		}
		printf("the server's clock is set forward\n") }
#endif
#if STRANGERS
	:: d_step { stranger == 0 && s[0].process == READY ->
		stranger = 1;
		printf("a stranger waits for the identity of session 0\n") }
	:: d_step { stranger == 1 + CLIENTS ->
		stranger = 2 * CLIENTS + 1;
		printf("the stranger frees the identity\n") }
#endif
#if FAILOVERS
	:: d_step { primary == 0 && s[0].phase != NEW ->
		primary = 1;
		printf("the standby is promoted; the old primary lives on\n") }
#endif
	od
}

#define overlap(i, j) (i != j && !(s[i].shared && s[j].shared) && (s[i].want & s[j].want) != 0)
#define excused(i) ((s[i].killed && !is(KILLS_COUNT)) || (jumped && !is(JUMPS_COUNT)) || (primary && !is(SERVERS_COUNT)))
#define heldTwice(i, j) (looksHeld(i) && overlap(i, j) && s[j].grant > s[i].grant && !excused(i))
#define asksStill(i) ((s[i].out == WAIT || s[i].out == TRY) && (s[i].at == SENT || s[i].at == RUNNING))
#define leftOver(i) (s[i].phase == OVER && (s[i].end == REFUSED || !s[i].closed) && (s[i].hold != 0 || asksStill(i)))

#if CLIENTS == 1
#define anyHeldTwice false
#define anyLeftOver leftOver(0)
#elif CLIENTS == 2
#define anyHeldTwice (heldTwice(0, 1) || heldTwice(1, 0))
#define anyLeftOver (leftOver(0) || leftOver(1))
#else
#define anyHeldTwice (heldTwice(0, 1) || heldTwice(1, 0) || heldTwice(0, 2) || heldTwice(2, 0) || heldTwice(1, 2) || heldTwice(2, 1))
#define anyLeftOver (leftOver(0) || leftOver(1) || leftOver(2))
#endif

#if LIVE
#define waits(i) (((s[i].phase >= ASKED && s[i].phase <= UNSETTLED) || s[i].phase == RELEASING) && !s[i].frozen)
#define leftBehind(i) (s[i].hold != 0 && (s[i].phase == OVER || s[i].closed || s[i].cut))
ltl WaitEnds { []<> !waits(0) && []<> !waits(1) }
ltl LockFreed { []<> !leftBehind(0) && []<> !leftBehind(1) }
#if TXS
#define runs(a) (t[a].phase > NOT_BEGUN && t[a].phase < ENDED)
ltl TransactionEnds { []<> !runs(0) && []<> !runs(1) }
#endif
#else
proctype watcher()
{
	do
	:: d_step { anyHeldTwice -> printf("VIOLATION HeldAlone\n"); assert(false) }
	:: d_step { anyLeftOver -> printf("VIOLATION NothingAfterError\n"); assert(false) }
	od
}
#endif

init {
	c_code { now.mutation = getenv("PGLOCK_MUTATION") ? atoi(getenv("PGLOCK_MUTATION")) : 0; };
	atomic {
		for (j : 0 .. CLIENTS - 1) {
			run client(j);
			run session(j);
#if CANCELS
			run cancels(j)
#endif
		}
#if TXS
		for (x : 0 .. TXN - 1) {
			run transaction(x)
		}
#endif
		run world();
#if !LIVE
		run watcher()
#endif
	}
}
