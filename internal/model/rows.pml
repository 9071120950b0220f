/*
 * Locks in rows (package rowlock). docs/internals/model.md says how to read this, and which function of the code each action
 * stands for.
 *
 * As in session.pml nothing is forced to happen, but in LIVE. A transaction of several statements is several actions: others see what
 * it has written when it commits, and a row that it has locked is passed over, or waited for, until then.
 */

#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef KEYS
#define KEYS 1
#endif
#ifndef CALLS
#define CALLS 2        /* of each client */
#endif
#ifndef TXS
#define TXS 1          /* 0: no guarded transactions */
#endif
#ifndef KILLS
#define KILLS 0        /* holders that a person ends */
#endif
#ifndef TICKS
#define TICKS 1        /* 0: no time passes, and holders end for other reasons only */
#endif
#ifndef DRIFTS
#define DRIFTS 1       /* how often the server's clock gains a tick */
#endif
#ifndef BACKS
#define BACKS 0        /* how often the server's clock is set back */
#endif
#ifndef JUMPS
#define JUMPS 0        /* how often it is set forward past every lease */
#endif
#ifndef LOSSES
#define LOSSES 1       /* answers to calls that are lost */
#endif
#ifndef PRUNES
#define PRUNES 1
#endif
#ifndef CRASHES
#define CRASHES 0      /* of the server, which ends all transactions */
#endif

#ifndef LIVE
#define LIVE 0         /* 1: what must happen happens at last. A process asks again until it has its lock, and unlocks it */
#endif
#ifndef SILENCES
#define SILENCES LIVE  /* processes that are cut off or frozen for good, in LIVE */
#endif

#ifndef LEASE
#define LEASE 4
#endif
#define TRUST (LEASE - 1)
#define ALL ((1 << KEYS) - 1)

/* The mutations. internal/model/plan.go has their names and what each leaves out. */
#define NO_MARGIN 1
#define FROM_RECEIPT 2
#define NO_CLOCK 3
#define OVER_IN_SNAPSHOT 4
#define NOT_LIVE_IN_SNAPSHOT 5
#define NO_MARK 6
#define RENEWS_THE_ENDED 7
#define RENEWS_THE_EXPIRED 8
#define NO_SETTLEMENT 9
#define NO_FLOOR 10
#define SETTLES_BESIDE_CALLS 11
#define NO_LOCK_ON_HOLDER 12
#define NO_UNDO 13
#define GUARD_LOCKS_NOTHING 14
#define GUARD_OF_ANY_GENERATION 15
#define TAKES_LOCKED_ROWS 16
#define PRUNE_LEAVES_LEASES 17
#define KILLS_COUNT 18
#define JUMPS_COUNT 19
#define UNGUARDED 20
#define NOT_DURABLE 21
#define NO_DEADLINE 22
#define TX_STAYS 23
c_decl { \#include <stdlib.h> };
byte mutation;
#define is(m) (mutation == m)

/* What the process is at. */
#define NEW 0
#define READY 1
#define ASKED 2
#define SETTLING 3     /* the answer was lost */
#define HELD 4
#define RELEASING 5
#define OVER 6

/* Who has the row of a holder locked so that others must wait. */
#define RENEWAL 1
#define TAKE 2

typedef Holder {
	/* On the server. */
	bit row; bit ended; byte expires; byte floor; byte lock;
	/* In its process. */
	byte phase; byte left; byte want; byte call; byte generation;
	byte renewal; byte sent; byte renewed;  /* the renewal, how long ago it was sent, and the expiry that it will commit */
	bit settle; bit drop;                   /* on their way to the server */
	bit cut;                                /* in LIVE: no message passes any more */
	bit frozen;                             /* the same, and the process does nothing any more */
	bit wants;                              /* in LIVE: it asks until it has its lock */
	bit missed;                             /* in LIVE: a statement of it found the rows locked, and has its turn before the next call */
	byte passed; bit untold                 /* of history; untold: the server has ended it early, and no renewal has come since */
};
Holder h[CLIENTS];

/* A renewal. */
#define SENT 1
#define DONE 2         /* not committed yet */
#define YES 3
#define NO 4

/* A call. */
#define BEGUN 2        /* it has locked the row of its holder */
#define MINE 3         /* it has locked the rows of its keys */
#define MARKED 4
#define GRANTS 5       /* not committed yet */
#define REFUSES 6
#define GRANTED 7      /* answers */
#define REFUSED 8
#define BEHIND 9       /* SENT, but its client does not wait for it any more */

typedef Call { byte state; byte marked; byte over; byte live; byte generation; bit late };
Call call[CLIENTS * CALLS];
#define of(c) ((c) / CALLS)
#define number(c) ((c) % CALLS + 1)
#define current(i) ((i) * CALLS + h[i].call - 1)
#define runs(c) (call[c].state >= BEGUN && call[c].state <= REFUSES)

typedef Lease { byte holder; byte attempt; byte generation; byte lock; byte top; bit soft };
Lease lease[KEYS];

byte generations;
byte kills = KILLS;
byte drifts = DRIFTS;
byte backs = BACKS;
byte jumps = JUMPS;
byte losses = LOSSES;
byte silences = SILENCES;
byte prunes = PRUNES;
byte crashes = CRASHES;

/* For loops, which leave them as they were. */
byte i = CLIENTS;
byte k = KEYS;
byte c = CLIENTS * CALLS;
bit found;

#define key(k) (1 << (k))
#define says(i) (h[i].phase == HELD && h[i].left > 0)     /* Err returns nil */
#define looksHeld(i) (h[i].phase == HELD && (h[i].left > 0 || is(NO_CLOCK)))
#define trust (is(NO_MARGIN) -> LEASE : TRUST)

inline loses(me) { h[me].phase = OVER; h[me].left = 0; h[me].sent = 0; h[me].drop = 0; h[me].untold = 0; h[me].wants = 0; h[me].missed = 0 }

/* The guarded transactions. */
#define LOCKING 1
#define CHECKING 2     /* it has the rows locked */
#define PASSED 3
#define COMMITTING 4
#define ENDED 5
typedef Tx { byte phase; byte generation };
Tx t[CLIENTS];
#define locksRows(i) (t[i].phase >= CHECKING && t[i].phase <= COMMITTING && !is(GUARD_LOCKS_NOTHING) && !is(UNGUARDED))

inline findGuard(mask) {
	for (i : 0 .. CLIENTS - 1) {
		if
		:: locksRows(i) && (h[i].want & (mask)) && !is(TAKES_LOCKED_ROWS) -> found = true
		:: else
		fi
	}
}

inline findRunning(me) { /* found: a call of this holder runs, and has its row locked */
	for (c : me * CALLS .. me * CALLS + CALLS - 1) {
		if
		:: runs(c) && !is(NO_LOCK_ON_HOLDER) -> found = true
		:: else
		fi
	}
	c = CLIENTS * CALLS;
}

inline miss(me) { h[me].missed = (LIVE > 0) }

inline free(k) { lease[k].holder = 0; lease[k].attempt = 0 }

#define mayOpen(me) (h[me].phase == NEW && (me == 0 || h[(me + CLIENTS - 1) % CLIENTS].phase != NEW))

inline asks(me, keys) {
	h[me].phase = ASKED; h[me].want = keys; h[me].call++; h[me].wants = LIVE;
	call[current(me)].state = SENT;
	printf("process %d asks for keys %d\n", me, keys)
}

#if LIVE
/* A process asks until it had its lock once. Those who have found the rows locked are not passed for ever: they wait in
 * PostgreSQL's queue, or ask again in the pause that is between two calls. */
#define hasTurn(i) (h[i].missed && !h[i].cut)
#define again(me) (h[me].generation == 0 && !hasTurn(0) && !hasTurn(1))
/* A call that was refused gives its number back, so that there is always another. */
#define refused(me) (h[me].call - 1)
#define mayEnd(i) ((h[i].left == 0 && !is(NO_DEADLINE)) || (h[i].renewal == NO && !h[i].cut))
#define mayRollBack(i) (h[i].cut && !is(TX_STAYS))
#else
#define again(me) true
#define refused(me) h[me].call
#define mayEnd(i) true
#define mayRollBack(i) true
#endif

#define mayAsk(me) (again(me) && h[me].phase == READY && h[me].left > 0 && h[me].call < CALLS && (TXS == 0 || t[me].phase == 0 || t[me].phase == ENDED || h[me].want == ALL))

proctype process(byte me)
{
	do
	:: d_step { mayOpen(me) ->
		h[me].phase = READY; h[me].row = 1; h[me].expires = LEASE; h[me].left = trust;
		printf("process %d opens its holder\n", me) }
	:: d_step { mayAsk(me) -> asks(me, ALL) }
#if KEYS > 1
	:: d_step { mayAsk(me) && (h[me].call == 0 || h[me].want == 1) -> asks(me, 1) }
	:: d_step { mayAsk(me) && (h[me].call == 0 || h[me].want == 2) -> asks(me, 2) }
#endif
	:: d_step { h[me].phase == ASKED && call[current(me)].state == GRANTED && !h[me].cut ->
		h[me].generation = call[current(me)].generation; call[current(me)].state = 0; call[current(me)].generation = 0;
		h[me].phase = HELD; h[me].wants = 0;
		printf("process %d gets the answer: granted\n", me) }
	:: d_step { h[me].phase == ASKED && call[current(me)].state == REFUSED && !h[me].cut ->
		call[current(me)].state = 0; h[me].phase = READY; h[me].call = refused(me);
		printf("process %d gets the answer: not granted\n", me) }
	:: d_step { h[me].phase == ASKED && losses > 0 && call[current(me)].state < GRANTED ->
		losses--; call[current(me)].late = 1;
		h[me].phase = (is(NO_SETTLEMENT) -> READY : SETTLING);
		h[me].settle = (is(NO_SETTLEMENT) -> 0 : 1);
		printf("process %d waits for its answer no longer\n", me) }
	:: d_step { h[me].phase == SETTLING && !h[me].settle ->
		h[me].phase = READY;
		printf("process %d: the call is settled\n", me) }
	:: d_step { says(me) ->
		h[me].phase = RELEASING; h[me].drop = 1;
		printf("process %d: Unlock\n", me) }
	:: d_step { h[me].phase == RELEASING && !h[me].drop ->
		h[me].phase = READY;
		printf("process %d: the release is confirmed\n", me) }
	:: d_step { h[me].phase != NEW && h[me].phase != OVER && mayEnd(me) ->
		h[me].renewal = (h[me].renewal == YES || h[me].renewal == NO -> 0 : h[me].renewal);
		loses(me);
		printf("process %d knows that its holder is over, or dies\n", me) }
#if LIVE
	:: d_step { silences > 0 && h[me].phase != NEW && h[me].phase != OVER ->
		silences--; h[me].cut = 1;
		printf("process %d is cut off from the server\n", me) }
	:: d_step { silences > 0 && h[me].phase != NEW && h[me].phase != OVER ->
		silences--; h[me].cut = 1; h[me].frozen = 1;
		printf("process %d is frozen, or its host is dead\n", me) } -> break
#endif
	od
}

/* Renewals go on beside calls. */
proctype keeper(byte me)
{
	do
	:: d_step { h[me].phase != NEW && h[me].phase != OVER && !h[me].frozen && h[me].renewal == 0 && h[me].left > 0 && (h[me].left < TRUST || !TICKS) ->
		h[me].renewal = SENT; h[me].sent = 0;
		printf("process %d sends a renewal\n", me) }
	:: d_step { h[me].renewal == YES && !h[me].cut ->
		if
		:: h[me].phase != OVER && (is(FROM_RECEIPT) || h[me].sent < trust) ->
			h[me].left = (is(FROM_RECEIPT) -> trust : trust - h[me].sent)
		:: else
		fi;
		h[me].renewal = 0; h[me].sent = 0;
		printf("process %d: its lease is renewed, for %d\n", me, h[me].left) }
	od
}

/* What the server does for the holder: a few statements that are transactions of their own. */
proctype renewals(byte me)
{
	do
	:: d_step { h[me].renewal == SENT && h[me].lock == 0 && !h[me].cut ->
		if
		:: h[me].row && (!h[me].ended || is(RENEWS_THE_ENDED)) && (h[me].expires > 0 || is(RENEWS_THE_EXPIRED) || is(RENEWS_THE_ENDED)) ->
			h[me].renewal = DONE; h[me].renewed = LEASE; h[me].lock = RENEWAL; h[me].untold = 0;
			printf("server: a renewal of holder %d has changed its row\n", me)
		:: else ->
			h[me].renewal = (h[me].phase == OVER -> 0 : NO); h[me].sent = 0;
			printf("server: a renewal finds that holder %d is over\n", me)
		fi }
	:: d_step { h[me].renewal == DONE ->
		h[me].expires = h[me].renewed; h[me].renewed = 0; h[me].lock = 0;
		h[me].renewal = (h[me].phase == OVER -> 0 : YES);
		printf("server: the renewal of holder %d is committed\n", me) }
	od
}

proctype server(byte me)
{
	do
	/* The settlement waits for calls of the holder that run, and for those who have the rows locked. */
	:: d_step { h[me].settle && h[me].lock == 0 && !h[me].cut ->
		findRunning(me);
		found = found && !is(SETTLES_BESIDE_CALLS);
		findGuard(h[me].want);
		for (k : 0 .. KEYS - 1) {
			found = found || (lease[k].lock != 0 && lease[k].holder == me + 1)
		}
		if
		:: found -> found = false; miss(me)
		:: else ->
			h[me].settle = 0; h[me].missed = 0;
			h[me].floor = (is(NO_FLOOR) -> h[me].floor : h[me].call);
			for (k : 0 .. KEYS - 1) {
				if
				:: lease[k].holder == me + 1 && lease[k].attempt == h[me].call && !is(NO_UNDO) -> free(k)
				:: else
				fi
			}
			printf("server: call %d of holder %d is settled\n", h[me].call, me)
		fi }

	/* A release passes over rows that are locked, and is repeated then. */
	:: d_step { h[me].drop && !h[me].cut ->
		findGuard(h[me].want);
		for (k : 0 .. KEYS - 1) {
			found = found || ((h[me].want & key(k)) && lease[k].lock != 0)
		}
		if
		:: found -> found = false; miss(me)
		:: else ->
			h[me].drop = 0; h[me].missed = 0;
			for (k : 0 .. KEYS - 1) {
				if
				:: lease[k].holder == me + 1 && lease[k].generation == h[me].generation && !h[me].ended -> free(k)
				:: else
				fi
			}
			printf("server: holder %d releases\n", me)
		fi }
	:: d_step { h[me].phase == OVER && h[me].row && !h[me].ended && h[me].lock == 0 && !h[me].cut ->
		h[me].ended = 1;
		printf("server: the process of holder %d says that it is over\n", me) }
#if KILLS
	:: d_step { kills > 0 && h[me].row && !h[me].ended && h[me].lock == 0 ->
		kills--; h[me].ended = 1; h[me].untold = 1;
		printf("server: holder %d is terminated\n", me) }
#endif
#if PRUNES
	:: d_step { prunes > 0 && h[me].row && h[me].expires == 0 && h[me].lock == 0 ->
		findRunning(me);
		if
		:: found -> found = false
		:: else ->
			prunes--;
			h[me].ended = 1;
			for (k : 0 .. KEYS - 1) {
				findGuard(key(k));
				if
				:: lease[k].holder == me + 1 && lease[k].lock == 0 && !found -> free(k)
				:: else
				fi;
				found = false
			}
			h[me].row = 0;
			for (k : 0 .. KEYS - 1) {
				h[me].row = (lease[k].holder == me + 1 && !is(PRUNE_LEAVES_LEASES) -> 1 : h[me].row)
			}
			printf("server: holder %d is pruned\n", me)
		fi }
#endif
	od
}

inline unlocks(me) {
	for (k : 0 .. KEYS - 1) {
		lease[k].lock = (lease[k].lock == me + 1 -> 0 : lease[k].lock)
	}
	for (i : 0 .. CLIENTS - 1) {
		h[i].lock = (call[me].marked & key(i) -> 0 : h[i].lock)
	}
	call[me].marked = 0; call[me].over = 0; call[me].live = 0
}

/* The answer, which no client waits for if the call is late. */
inline answers(me, what) {
	call[me].state = (call[me].late || h[of(me)].phase == OVER -> 0 : what);
	call[me].late = 0;
	call[me].generation = (call[me].state == GRANTED -> call[me].generation : 0)
}

/* Whether the lock of key k, which this call has locked, may be taken. */
#define endedFor(me, i) (h[i].row && (h[i].ended || (call[me].marked & key(i))))
#define holderOf(k) ((lease[k].holder + CLIENTS - 1) % CLIENTS)
#define isFree(me, k) (lease[k].holder == 0 \
	|| (is(OVER_IN_SNAPSHOT) && (call[me].over & key(holderOf(k)))) \
	|| (is(NOT_LIVE_IN_SNAPSHOT) && !(call[me].live & key(holderOf(k)))) \
	|| (is(NO_MARK) && h[holderOf(k)].row && h[holderOf(k)].expires == 0) \
	|| (!is(OVER_IN_SNAPSHOT) && !is(NOT_LIVE_IN_SNAPSHOT) && endedFor(me, holderOf(k))))
#define oneStatement (is(OVER_IN_SNAPSHOT) || is(NOT_LIVE_IN_SNAPSHOT))
#define mine of(me)
#define isExpired(i) (!oneStatement && !is(NO_MARK) && h[i].row && !h[i].ended && h[i].expires == 0 && h[i].lock == 0)

/* A look without locks. */
#define seesHeld(me, k) ((h[mine].want & key(k)) && lease[k].holder != 0 \
	&& !(h[holderOf(k)].row && (h[holderOf(k)].ended || h[holderOf(k)].expires == 0)))
#if KEYS > 1
#define cannotWin(me) (seesHeld(me, 0) || seesHeld(me, 1))
#else
#define cannotWin(me) seesHeld(me, 0)
#endif

proctype take(byte me)
{
	do
	:: d_step { call[me].state == SENT && !h[mine].cut && cannotWin(me) ->
		answers(me, REFUSED);
		printf("server: call %d only looks, and finds its keys held\n", me) }
	:: d_step { call[me].state == SENT && !h[mine].cut ->
		if
		:: h[mine].row && !h[mine].ended && h[mine].expires > 0 && number(me) > h[mine].floor ->
			call[me].state = BEGUN;
			for (i : 0 .. CLIENTS - 1) {
				call[me].over = (oneStatement && h[i].row && (h[i].ended || h[i].expires == 0) -> call[me].over | key(i) : call[me].over);
				call[me].live = (oneStatement && h[i].row && !h[i].ended && h[i].expires > 0 -> call[me].live | key(i) : call[me].live)
			}
			printf("server: call %d begins, with the row of holder %d\n", me, mine)
		:: else ->
			answers(me, REFUSED);
			printf("server: call %d is refused: holder %d is over, or the call was settled\n", me, mine)
		fi }
	:: d_step { call[me].state == BEGUN ->
		findGuard(h[mine].want);
		for (k : 0 .. KEYS - 1) {
			found = found || ((h[mine].want & key(k)) && lease[k].lock != 0)
		}
		if
		:: found ->
			found = false; unlocks(me); answers(me, REFUSED);
			printf("server: call %d finds rows locked: busy\n", me)
		:: else ->
			for (k : 0 .. KEYS - 1) {
				lease[k].lock = (h[mine].want & key(k) -> me + 1 : lease[k].lock)
			}
			call[me].state = MINE;
			printf("server: call %d locks the rows of its keys\n", me)
		fi }
	:: d_step { call[me].state == MINE ->
		for (k : 0 .. KEYS - 1) {
			if
			:: (h[mine].want & key(k)) && lease[k].holder != 0 && holderOf(k) != mine && isExpired(holderOf(k)) ->
				h[holderOf(k)].lock = TAKE + me; call[me].marked = call[me].marked | key(holderOf(k))
			:: else
			fi
		}
		call[me].state = MARKED;
		printf("server: call %d marks holders %d as ended\n", me, call[me].marked) }
	:: d_step { call[me].state == MARKED ->
		for (k : 0 .. KEYS - 1) {
			if
			:: (h[mine].want & key(k)) && !isFree(me, k) -> found = true
			:: else
			fi
		}
		if
		:: found -> found = false; call[me].state = REFUSES;
			printf("server: call %d finds its keys held\n", me)
		:: else -> call[me].state = GRANTS; generations++; call[me].generation = generations;
			printf("server: call %d takes its keys\n", me)
		fi }
	:: d_step { call[me].state == GRANTS || call[me].state == REFUSES ->
		for (i : 0 .. CLIENTS - 1) {
			h[i].ended = (call[me].marked & key(i) -> 1 : h[i].ended)
		}
		for (k : 0 .. KEYS - 1) {
			if
			:: call[me].state == GRANTS && (h[mine].want & key(k)) ->
				lease[k].holder = mine + 1; lease[k].attempt = number(me); lease[k].generation = call[me].generation;
				lease[k].top = call[me].generation; lease[k].soft = is(NOT_DURABLE)
			:: else
			fi
		}
		unlocks(me);
		answers(me, (call[me].state == GRANTS -> GRANTED : REFUSED));
		printf("server: call %d is committed\n", me) }
	od
}
#undef mine

#if TXS
#define exclude(a, b) (a != b && (h[a].want & h[b].want) != 0)

inline guardPasses(me) {
	for (i : 0 .. CLIENTS - 1) {
		if
		:: exclude(me, i) && (t[i].phase == PASSED || t[i].phase == COMMITTING) ->
			printf("VIOLATION InOrder\n");
			assert(false)
		:: else
		fi
	}
	t[me].phase = PASSED; h[me].passed = t[me].generation;
	printf("process %d: GuardTx returns nil\n", me)
}

inline fails(me) { t[me].phase = ENDED; t[me].generation = 0 }

#define rowIs(me, k) (lease[k].holder == me + 1 && (lease[k].generation == t[me].generation || is(GUARD_OF_ANY_GENERATION)))

proctype transaction(byte me)
{
	do
	:: d_step { says(me) && t[me].phase == 0 ->
		t[me].phase = LOCKING; t[me].generation = h[me].generation;
		printf("process %d calls GuardTx\n", me) }
	:: d_step { t[me].phase == LOCKING && !h[me].cut ->
		for (k : 0 .. KEYS - 1) {
			found = found || ((h[me].want & key(k)) && lease[k].lock != 0 && !is(TAKES_LOCKED_ROWS) && !is(UNGUARDED))
		}
		if
		:: found -> found = false; miss(me)  /* it waits */
		:: else ->
			h[me].missed = 0;
			for (k : 0 .. KEYS - 1) {
				found = found || ((h[me].want & key(k)) && !rowIs(me, k) && !is(UNGUARDED))
			}
			if
			:: found ->
				found = false; fails(me);
				printf("server: the guard of process %d finds another holder or generation\n", me)
			:: else ->
				t[me].phase = CHECKING;
				printf("server: the guard of process %d locks the rows\n", me)
			fi
		fi }
	:: d_step { t[me].phase == CHECKING && !h[me].cut ->
		if
		:: h[me].row && h[me].ended && !is(UNGUARDED) ->
			fails(me);
			printf("server: the guard of process %d finds its holder ended\n", me)
		:: else -> guardPasses(me)
		fi }
	:: d_step { t[me].phase == PASSED && !h[me].frozen ->
		t[me].phase = COMMITTING;
		printf("process %d commits its transaction\n", me) }
	:: d_step { t[me].phase == COMMITTING && !h[me].cut ->
		printf("server: the transaction of process %d is committed\n", me);
		for (i : 0 .. CLIENTS - 1) {
			if
			:: exclude(me, i) && h[i].passed > t[me].generation ->
				printf("VIOLATION InOrder\n");
				assert(false)
			:: else
			fi
		}
		fails(me) }
	:: d_step { t[me].phase >= (LIVE -> LOCKING : CHECKING) && t[me].phase <= COMMITTING && mayRollBack(me) ->
		fails(me);
		printf("server: the transaction of process %d is rolled back, since its connection has ended\n", me) }
	od
}
#endif

#define less(n) (n > 0 -> n - 1 : 0)

proctype world()
{
	do
	:: d_step { TICKS ->
		for (i : 0 .. CLIENTS - 1) {
			h[i].left = less(h[i].left);
			h[i].sent = (h[i].renewal != 0 && h[i].phase != OVER && h[i].sent < trust -> h[i].sent + 1 : h[i].sent);
			h[i].expires = less(h[i].expires);
			h[i].renewed = less(h[i].renewed)
		}
		printf("a tick\n") }
	:: d_step { drifts > 0 ->
		drifts--;
		for (i : 0 .. CLIENTS - 1) {
			h[i].expires = less(h[i].expires);
			h[i].renewed = less(h[i].renewed)
		}
		printf("a tick of the server's clock alone\n") }
#if JUMPS
	:: d_step { jumps > 0 ->
		jumps--;
		for (i : 0 .. CLIENTS - 1) {
			h[i].expires = 0; h[i].renewed = 0; h[i].untold = h[i].row
		}
		printf("the server's clock is set forward\n") }
#endif
#if BACKS
	:: d_step { backs > 0 ->
		backs--;
		for (i : 0 .. CLIENTS - 1) {
			h[i].expires = (h[i].row -> LEASE : 0);
			h[i].renewed = (h[i].renewal == DONE -> LEASE : 0)
		}
		printf("the server's clock is set back\n") }
#endif
#if CRASHES
	:: d_step { crashes > 0 ->
		crashes--;
		for (c : 0 .. CLIENTS * CALLS - 1) {
			if
			:: runs(c) -> unlocks(c); call[c].state = 0; call[c].generation = 0; call[c].late = 0
			:: else
			fi
		}
		for (i : 0 .. CLIENTS - 1) {
			h[i].lock = 0; h[i].renewed = 0;
			h[i].renewal = (h[i].renewal == DONE -> 0 : h[i].renewal);
			t[i].phase = (t[i].phase != 0 -> ENDED : 0); t[i].generation = 0
		}
		for (k : 0 .. KEYS - 1) {
			lease[k].holder = (lease[k].soft -> 0 : lease[k].holder); lease[k].soft = 0
		}
		printf("the server crashes, and starts again\n") }
#endif
	od
}

#define excused(i) (h[i].untold && !is(KILLS_COUNT) && !is(JUMPS_COUNT))
#define newer(i, k) ((h[i].want & key(k)) && lease[k].top > h[i].generation)
#if KEYS > 1
#define anyNewer(i) (newer(i, 0) || newer(i, 1))
#define anyOf(what, i) (what(i, 0) || what(i, 1))
#else
#define anyNewer(i) newer(i, 0)
#define anyOf(what, i) what(i, 0)
#endif
#define heldTwice(i) (looksHeld(i) && !excused(i) && anyNewer(i))
#define leftOver(i, k) (lease[k].holder == i + 1 && !h[i].ended && (h[i].phase == READY || ((h[i].phase == ASKED || h[i].phase == SETTLING) && lease[k].attempt != h[i].call)))
#define unknown(i, k) (lease[k].holder == i + 1 && !h[i].row)
#if CLIENTS > 2
#define some(what) (what(0) || what(1) || what(2))
#else
#define some(what) (what(0) || what(1))
#endif
#define leftOverOf(i) anyOf(leftOver, i)
#define unknownOf(i) anyOf(unknown, i)

#if LIVE
#define waits(i) ((h[i].wants || h[i].phase == ASKED || h[i].phase == SETTLING || h[i].phase == RELEASING) && !h[i].frozen)
ltl WaitEnds { []<> !waits(0) && []<> !waits(1) }
#if TXS
#define open(i) (t[i].phase > 0 && t[i].phase < ENDED)
ltl TransactionEnds { []<> !open(0) && []<> !open(1) }
#endif
#else
proctype watcher()
{
	do
	:: d_step { some(heldTwice) -> printf("VIOLATION HeldAlone\n"); assert(false) }
	:: d_step { some(leftOverOf) -> printf("VIOLATION NothingAfterError\n"); assert(false) }
	:: d_step { some(unknownOf) -> printf("VIOLATION HolderKnown\n"); assert(false) }
	od
}
#endif

init {
	c_code { now.mutation = getenv("PGLOCK_MUTATION") ? atoi(getenv("PGLOCK_MUTATION")) : 0; };
	atomic {
		for (i : 0 .. CLIENTS - 1) {
			run process(i);
			run keeper(i);
			run renewals(i);
			run server(i);
#if TXS
			run transaction(i)
#endif
		}
		for (c : 0 .. CLIENTS * CALLS - 1) {
			run take(c)
		}
		run world();
#if !LIVE
		run watcher()
#endif
	}
}
