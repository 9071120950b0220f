/* Deadlocks between processes. Each holds a lock, in whose context a call of it may wait for the next one's. It publishes the
 * call, as the text of a statement that also looks at what all have published, and at who holds the locks.
 *
 * Nothing is forced to happen: a statement may arrive at any later time, and a process may do nothing for as long as it likes.
 * Time, and so the one that gives up two seconds after another that does not, is left out. */
#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef WAITS
#define WAITS 2        /* calls that each process makes, one after another */
#endif
#ifndef LOOKS
#define LOOKS 5        /* of each process */
#endif

#define NO_SECOND_LOOK 1
#define ONE_ANSWER 2
#define NO_ORDER 3
#define ANY_WAIT 4
c_decl { \#include <stdlib.h> };
byte mutation;
#define is(m) (mutation == m)

/* The statement of a process. */
#define NONE 0
#define SENT 1
#define ANSWERED 2

typedef Text { byte wait; byte began; byte answers };
typedef Sight { bit cycle; bit real; byte youngest; byte wait[PROCESSES]; byte answers[PROCESSES] };
typedef Process {
	bit holds;             /* the lock */
	byte wait; byte began; /* the call, and when it began; 0 is none */
	byte calls; byte looks; byte answers;
	byte statement;
	Text sent; Text shown; /* on its way, and on the server */
	Sight sight;           /* on its way back */
	bit suspects;
	Sight first;           /* of the cycle that it suspects */
	byte gave              /* of history: the last call that gave up */
};
Process p[PROCESSES];
byte clock;

/* For loops, which leave them as they were. */
byte i = PROCESSES;
bit same;

#define next(i) ((i + 1) % PROCESSES)

inline ends(me) { p[me].wait = 0; p[me].began = 0 }

/* The server takes the text, and shows what all have published. A text counts while its process holds the lock. */
inline carriesOut(me) {
	p[me].shown.wait = p[me].sent.wait; p[me].shown.began = p[me].sent.began; p[me].shown.answers = p[me].sent.answers;
	p[me].sight.cycle = 1; p[me].sight.real = 1; p[me].sight.youngest = 0;
	for (i : 0 .. PROCESSES - 1) {
		p[me].sight.wait[i] = p[i].shown.wait;
		p[me].sight.answers[i] = p[i].shown.answers;
		if
		:: p[i].shown.wait == 0 || !p[i].holds -> p[me].sight.cycle = 0
		:: else
		fi;
		if
		:: p[i].wait == 0 || p[i].wait != p[i].shown.wait || !p[i].holds -> p[me].sight.real = 0
		:: else
		fi;
		if
		:: p[i].shown.began > p[p[me].sight.youngest].shown.began -> p[me].sight.youngest = i
		:: else
		fi
	}
	i = PROCESSES
}

/* same: each process has published the same call as at the first look, and has got two answers since. */
inline compares(me) {
	same = p[me].suspects;
	for (i : 0 .. PROCESSES - 1) {
		if
		:: p[me].sight.wait[i] != p[me].first.wait[i] && !is(ANY_WAIT) -> same = 0; p[me].suspects = 0
		:: p[me].sight.answers[i] < p[me].first.answers[i] + (is(ONE_ANSWER) -> 1 : 2) -> same = 0
		:: else
		fi
	}
	i = PROCESSES
}

inline remembers(me) {
	p[me].suspects = 1; p[me].first.real = p[me].sight.real;
	for (i : 0 .. PROCESSES - 1) {
		p[me].first.wait[i] = p[me].sight.wait[i];
		p[me].first.answers[i] = p[me].sight.answers[i]
	}
	i = PROCESSES
}

inline forgets(me) {
	p[me].suspects = 0; p[me].first.real = 0;
	for (i : 0 .. PROCESSES - 1) {
		p[me].first.wait[i] = 0;
		p[me].first.answers[i] = 0
	}
	i = PROCESSES
}

inline givesUp(me) {
	printf("process %d: its call gives up\n", me);
	if
	:: !p[me].first.real -> printf("VIOLATION Deadlocked\n"); assert(false)
	:: else
	fi;
	for (i : 0 .. PROCESSES - 1) {
		if
		:: i != me && p[me].first.wait[i] == p[i].gave -> printf("VIOLATION OneVictim\n"); assert(false)
		:: else
		fi
	}
	i = PROCESSES;
	p[me].gave = p[me].wait;
	ends(me); forgets(me)
}

proctype process(byte me)
{
	do
	:: d_step { p[me].wait == 0 && p[me].holds && p[me].calls < WAITS ->
		p[me].calls++; clock++; p[me].wait = p[me].calls; p[me].began = clock;
		printf("process %d: a call begins to wait\n", me) }
	:: d_step { p[me].wait > 0 ->
		ends(me);
		printf("process %d: its call is granted its lock, or its context ends\n", me) }
	:: d_step { p[me].holds && p[me].calls > 0 ->
		p[me].holds = 0;
		printf("process %d: its lock ends\n", me) }
	:: d_step { !p[me].holds && p[me].wait == 0 && p[me].calls < WAITS ->
		p[me].holds = 1;
		printf("process %d is granted its lock again\n", me) }
	:: d_step { p[me].statement == NONE && p[me].looks < LOOKS && (p[me].wait > 0 || p[me].shown.wait > 0) ->
		p[me].looks++; p[me].statement = SENT;
		p[me].sent.wait = (p[me].holds -> p[me].wait : 0); p[me].sent.began = (p[me].holds -> p[me].began : 0);
		p[me].sent.answers = p[me].answers;
		printf("process %d publishes call %d, and looks\n", me, p[me].sent.wait) }
	:: d_step { p[me].statement == SENT ->
		carriesOut(me); p[me].statement = ANSWERED;
		p[me].sent.wait = 0; p[me].sent.began = 0; p[me].sent.answers = 0;
		printf("the server carries out the statement of process %d\n", me) }
	:: d_step { p[me].statement == ANSWERED ->
		printf("process %d gets the answer: cycle %d\n", me, p[me].sight.cycle);
		p[me].statement = NONE; p[me].answers++;
		if
		:: !p[me].sight.cycle || p[me].sight.wait[me] != p[me].wait -> forgets(me)
		:: else ->
			compares(me);
			if
			:: !p[me].suspects -> remembers(me)
			:: else
			fi;
			if
			:: (same || is(NO_SECOND_LOOK)) && (p[me].sight.youngest == me || is(NO_ORDER)) -> givesUp(me)
			:: else
			fi
		fi }
	od
}

init {
	c_code { now.mutation = getenv("PGLOCK_MUTATION") ? atoi(getenv("PGLOCK_MUTATION")) : 0; };
	atomic {
		for (i : 0 .. PROCESSES - 1) {
			p[i].holds = 1;
			run process(i)
		}
	}
}
