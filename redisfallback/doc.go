// Package redisfallback keeps the locks of package pglock on Redis, for deployments that have no PostgreSQL. What it
// returns is the same [pglock.Locker]: Lock, LockAll, Shared, MaxHold, Do, Verify, Holders and Close mean the same.
//
//	locker, err := redisfallback.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}))
//
// # What it guarantees, and what it cannot
//
// A lock is a lease: the key expires when its holder has not renewed it for as long as [pglock.WithLease] says, 15 s
// by default. A renewer renews it three times in that period, over separate connections. The lock ends in the
// holder's process, with its Context, before the key can have expired: one lease after the last answered renewal was
// sent, less one percent and 2 ms for clocks that differ in speed. So when the network or the process fails, the
// holder learns of it before another one can get the lock.
//
// A lock that Redis itself forgets may be granted again. The first holder learns of it at its next renewal on that
// server, within a third of the lease. Until then two holders may be at work:
//   - Replication is asynchronous (https://redis.io/docs/latest/operate/oss_and_stack/management/replication/):
//     a failover by Sentinel or in a Cluster loses the locks that the new primary had not heard of.
//   - A server without persistence forgets all locks when it restarts. With appendfsync everysec it may forget those of
//     the last second.
//   - A server whose maxmemory-policy is not noeviction may evict locks.
//   - FLUSHALL, DEL and SET by others, and forward jumps of the server's wall clock, by which keys expire.
//
// A split brain is worse: a holder that still reaches the old primary keeps renewing there. It does not learn of the
// new primary's grant until the old one steps down. Set min-replicas-to-write to 1 or more, and min-replicas-max-lag
// to less than the lease: a primary that is cut off from its replicas then refuses renewals too, and the lock ends
// with its lease. [pglock.Locker.Ping] and the first lock log a warning when the server has replicas and
// min-replicas-to-write is 0, or when it may evict locks.
//
// Where the first two matter, use [NewRedlock], on servers that do not know each other: a lock then survives the loss
// of any minority of them, and a server that comes back empty is harmless as long as it stays away for one lease.
//
// [pglock.Lock.Fence] numbers the holders of a lock by a counter that never falls behind the server's clock. So the
// numbers grow even if the server has lost the counter. Only a wall clock that was set back, or a failover to a
// server that has neither the counter nor the time, can break that. On Redlock it is [pglock.ErrUnsupported]. Locks
// on Redis and locks in PostgreSQL, those of transactions included, do not exclude each other: choose one when you
// deploy, and do not switch while the program runs.
//
// # Identity
//
// On Redis a lock is its text, prefix and [pglock.Key.String]: "pglock:invoice:42", for raw keys "pglock:@42". A name
// that begins with @ is written with two, to tell it from a raw key. A name and the raw key of its number are one lock
// in PostgreSQL but two here, and so are two names whose hashes collide. [pglock.Key.Equal] follows PostgreSQL.
//
// # What is stored
//
// An exclusive lock is a string with the holder's token, as SET key token NX PX lease makes it. Scripts that compare
// the token first delete and extend it. redis-py, redsync and bsm/redislock do the same. On Redlock a number follows
// the token if the first attempt failed, so that undoing an attempt cannot end a later one. With [WithKeyPrefix]("")
// a lock of the same name in any of them excludes ours, and ours excludes it. A shared lock has the value
// "pglock:shared" in that key; its holders are in a sorted set beside it. Waiters stand in sorted sets, writers and
// readers apart. These keys begin with a tag that puts them in the lock's hash slot: "{3x}:pglock:shared:…", and so
// does the slot's fence counter. Except for that counter every key has a time to live. A name that would be such a
// key, which only WithKeyPrefix("") permits, is [pglock.ErrInvalidKey].
//
// What redis-py's Lock has, and where it is here:
//
//	Lock(name, timeout=15)              WithLease(15 * time.Second) of the Locker; always renewed, never without timeout
//	Lock(timeout=t) without renewal     MaxHold(t)
//	acquire(blocking=True)              Lock(ctx, key)
//	acquire(blocking=False)             TryLock(ctx, key)
//	acquire(blocking_timeout=t)         Lock(ctx, key, MaxWait(t)), or the context's deadline
//	sleep                               nothing: waiters are woken
//	with lock:                          Do(ctx, key, func…)
//	release()                           Unlock(ctx); LockNotOwnedError is ErrLost, LockError ErrUnlocked
//	locked()                            len(Holders(ctx, key)) > 0
//	owned()                             Verify(ctx) == nil
//	reacquire()                         nothing: the renewer does it. With MaxHold(t), Extend(t)
//	extend(t, replace_ttl=True)         Extend(t): the lock ends t from now
//	extend(t)                           nothing: keep the end that you set; Extend for what is left, and t
//	thread_local                        the *Lock value is the owner; pass it on or do not
//	raise_on_release_error              nothing: Unlock returns its error
//
// # Waiting
//
// Waiters of one server or Cluster wait in a line on it. Unlock hands the lock to the next connected waiter and
// publishes a message. So waiters are served in order across processes, and an idle line costs no commands. A waiter
// whose process died is skipped. A waiter that is frozen, or behind a broken network, costs 2 s, which is how long
// an unconfirmed offer lasts. A subscription that is silent for 5 s (or for a lease, if that is shorter) is tried,
// and made anew if it does not answer.
//
// A waiter also asks again when the holder's lease expires, in case the holder died. In case a message was lost, the
// first in line asks every 2 s or a quarter of the lease, and the others less often. All waiters of a Locker together
// ask at most 25 times a second. Clients of other libraries publish nothing. While one of them is the
// holder, the first in line tries every 75 ms to 1 s. Once it knows the rhythm of such holders, it tries in short
// bursts around the next release. So it gets its share even beside clients that take the lock again at once. Clients
// that poll are not in the line: they are not served while waiters of this package are. Readers and writers take
// turns. On Redlock a release also wakes waiters, but there is no common line: they ask again, in random order.
//
// On a Cluster one subscription gets all messages, which its servers pass on to each other. They cannot count who receives
// them, so an offer to a process that died holds the lock up for two seconds.
//
// # Unreachable servers
//
// A Redlock node that does not answer is not waited for, beyond [WithNodeTimeout], where the others decide without it. A
// single server has no substitute, so calls wait for it, up to that time.
//
// A replica is refused with [pglock.ErrStandby]. Clients of a Redlock that lead to one server have one vote
// together, and [pglock.Locker.Ping] returns an error. A client of a Cluster is an error of [NewRedlock]. If the
// server does not permit INFO, this is not checked. Rights that the user needs to keep and release locks are checked
// before the first lock, so that no lock is granted that cannot be kept.
//
// Renewals must not wait, so they use a separate client with the configuration of the given one, without hooks added
// to it. Everything else shares the connections of the client: give the Locker one whose connections are not all busy
// with blocking commands.
//
// # Rights
//
// This user has the necessary rights for the default prefix, on one server and, with the second line, on each node of a
// Cluster:
//
//	ACL SETUSER locks on >PASSWORD ~pglock:* ~{*}:pglock:* &pglock:wake:* +ping +info +hello +subscribe +publish +evalsha +eval +get +set +del +exists +pttl +pexpire +pexpireat +time +zadd +zrem +zrange +zrank +zscore +zpopmin +zrangebyscore +zremrangebyscore
//	ACL SETUSER locks +cluster|slots +cluster|shards +command +readonly
//
// These rights reach every lock on the server whose prefix begins with pglock: and the internal keys of all others, so
// users who have them can take each other's locks. Use one Redis for each group of programs that trust each other.
//
// The package requires Redis 6.2 or later and is tested on 7.0.
package redisfallback
