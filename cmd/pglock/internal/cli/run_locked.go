package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/term"
	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock"
)

// lockedRun is one run of a command under a lock.
type lockedRun struct {
	*run
	*server
	key     pglock.Key
	signals *job.Signals
}

// execute takes the lock, runs the command to its end, and unlocks. It returns the command's exit code.
func (u *lockedRun) execute(path string, argv []string) (code int, err error) {
	ctx := context.Background() // a signal ends only the steps that take a context
	if u.jitter > 0 {
		if _, err := job.While(ctx, u.signals, u.jittered); err != nil {
			return 0, u.acquireError(nil, err)
		}
	}
	if u.ticks() {
		ran, err := job.While(ctx, u.signals, u.checkTick)
		if err != nil {
			return 0, u.acquireError(nil, err)
		}
		if ran {
			u.alreadyRan()
			return 0, nil
		}
		defer u.mark(ctx)() // when the lock has been unlocked, so that waiters for it do not wait for the mark too
	}
	lock, err := job.While(ctx, u.signals, u.acquire)
	if err != nil {
		return 0, u.acquireError(lock, err)
	}
	if u.ticks() {
		ran, err := job.While(lock.Context(ctx), u.signals, func(ctx context.Context) (bool, error) { return u.runStep(ctx, u.begin()) })
		if err != nil {
			return 0, errors.Join(u.failed(err), unlock(ctx, lock))
		}
		if ran {
			u.alreadyRan()
			return 0, unlock(ctx, lock)
		}
	}
	environment, err := u.environment(ctx, lock)
	if err != nil {
		return 0, errors.Join(u.failed(err), unlock(ctx, lock))
	}
	if u.verbose {
		say(os.Stderr, "%v", u.failed(fmt.Errorf("got the lock %q, running %s", u.key, argv[0])))
	}
	command, err := job.Start(path, argv, environment, u.sockets.files(), time.Duration(u.lease))
	if err != nil {
		return 0, errors.Join(err, unlock(ctx, lock))
	}
	reported, late := u.supervise(lock, command)
	if code, err = command.Code(); late {
		code = codeLate
	}
	return code, errors.Join(err, u.recordSuccess(ctx, lock, code), u.finish(ctx, lock, code, reported))
}

// acquire takes the lock or the permit.
func (u *lockedRun) acquire(ctx context.Context) (heldLock, error) {
	if u.permits > 0 {
		return u.acquirePermit(ctx)
	}
	lock, err := u.acquireLock(ctx)
	if lock == nil {
		return nil, err
	}
	return lock, err
}

// acquireLock tries the lock first, so that it can name the holder before it waits.
func (u *lockedRun) acquireLock(ctx context.Context) (*pglock.Lock, error) {
	var options []pglock.LockOption
	if u.shared {
		options = append(options, pglock.Shared())
	}
	lock, err := u.locker.TryLock(ctx, u.key, options...)
	held, isHeld := errors.AsType[*pglock.WaitError](err)
	if !isHeld {
		return lock, err
	}
	if holders, err := u.locker.Holders(ctx, u.key); err == nil { // otherwise the message names no holder
		held.Holders = holders
	}
	if u.nonblock || (u.bounded && u.wait == 0) {
		return nil, held
	}
	if u.verbose || term.Is(os.Stderr) {
		say(os.Stderr, "%v; waiting", u.failed(held))
	}
	began := time.Now()
	for {
		bound := options
		if u.bounded {
			bound = append(bound, pglock.MaxWait(max(0, time.Duration(u.wait)-time.Since(began))))
		}
		lock, err := u.locker.Lock(ctx, u.key, bound...)
		if !isOutage(err) || !u.dsn.await(ctx, u.locker.Ping) {
			return lock, err
		}
	}
}

// mark takes the lock by which the monitor recognizes the run of a job, and waits for its end as a matter of course, and
// returns what unlocks it. Nothing depends on it: it is not waited for, and its loss does not concern the run.
func (u *lockedRun) mark(ctx context.Context) (unmark func()) {
	class, object, _ := lockkeys.TickMark.Of(u.key.ID()).Pair()
	lock, err := u.locker.TryLock(ctx, pglock.PairKey(class, object), pglock.Shared(),
		hooks.WithUse(pglock.Use{Kind: hooks.UseTickMark, Key: u.key}).(pglock.LockOption))
	if err != nil {
		return func() {}
	}
	return func() { _ = lock.Unlock(ctx) }
}

// acquireError explains why there is no lock to run the command under. A signal may have arrived together with the lock.
func (u *lockedRun) acquireError(lock heldLock, err error) error {
	if lock != nil {
		return errors.Join(err, unlock(context.Background(), lock))
	}
	switch {
	case errors.Is(err, pglock.ErrNotAcquired):
		return &exit{int(u.conflictCode), u.failed(err)}
	case errors.Is(err, pglock.ErrSchemaMissing):
		return &exit{codeUnavailable, u.failed(err)}
	case errors.Is(err, pglock.ErrPooler):
		err = behindPooler(err)
	}
	return u.failed(err)
}

// behindPooler says what to do in flags, where the error says it in Go.
func behindPooler(err error) error {
	const flags = "--allow-pooler permits it, and --rows keeps the lock in a row"
	before, inGo := strings.CutSuffix(err.Error(), trust.Pooled().Error())
	if !inGo {
		return fmt.Errorf("%w; %s", err, flags)
	}
	return fmt.Errorf("%s%w: the server process is not the one that the connection was made to. Connect to the server itself; "+
		"keep the lock in a row with --rows; or, if the proxy keeps one server session for each client, permit it with --allow-pooler",
		before, pglock.ErrPooler)
}

// environment returns pglock's environment with the variables about the lock, in place of those of an outer pglock.
func (u *lockedRun) environment(ctx context.Context, lock heldLock) ([]string, error) {
	const key, fence, due = "PGLOCK_KEY=", "PGLOCK_FENCE=", "PGLOCK_DUE="
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, key) || strings.HasPrefix(variable, fence) ||
			strings.HasPrefix(variable, due)
	})
	environment = append(environment, key+u.key.String())
	if u.ticks() {
		environment = append(environment, due+u.due.Format(time.RFC3339))
	}
	ctx, cancel := context.WithTimeout(ctx, u.confirmTimeout())
	defer cancel()
	token, err := lock.Fence(ctx)
	switch lost := lock.Err(); {
	case err == nil:
		return append(environment, fmt.Sprint(fence, token)), nil
	case lost != nil:
		return nil, lost
	case !errors.Is(err, pglock.ErrSchemaMissing) && !errors.Is(err, pglock.ErrUnsupported):
		say(os.Stderr, "the command runs without PGLOCK_FENCE: %v", u.failed(err))
	}
	return environment, nil
}

// supervise waits until the command has ended, and ends it if the lock is lost, or --max-run has passed. It returns whether it
// has reported a loss to the user, and whether the command ran too long.
func (u *lockedRun) supervise(lock heldLock, command *job.Job) (reported, late bool) {
	var over <-chan time.Time
	if u.maxRun > 0 {
		over = time.After(time.Duration(u.maxRun))
	}
	for {
		select {
		case <-command.Done():
			return false, false
		case <-over:
			say(os.Stderr, "%v", u.failed(fmt.Errorf("the command has run for %v (--max-run); ending it", time.Duration(u.maxRun))))
			command.End(time.Duration(u.killAfter))
			return false, true
		case signal := <-u.signals.Arrived():
			command.Signal(signal)
		case <-lock.Done():
			say(os.Stderr, "%v; ending the command", u.failed(lock.Err()))
			command.End(time.Duration(u.killAfter))
			return true, false
		}
	}
}

// finish verifies that the lock was held until the command ended, and unlocks. If unlocking then fails, finish prints a
// message, but the command has not failed: the session that held the lock has ended.
func (u *lockedRun) finish(ctx context.Context, lock heldLock, code int, reported bool) error {
	bounded, cancel := context.WithTimeout(ctx, u.confirmTimeout())
	defer cancel()
	verified := lock.Verify(bounded)
	unlocked := lock.Unlock(ctx)
	switch err := errors.Join(verified, unlocked); {
	case err == nil:
		return nil
	case errors.Is(err, pglock.ErrLost) && reported:
		return &exit{code: codeLost}
	case errors.Is(err, pglock.ErrLost):
		lost := verified
		if lost == nil {
			lost = unlocked
		}
		return &exit{codeLost, u.failed(fmt.Errorf("%w; the command had ended with exit code %d", lost, code))}
	default:
		say(os.Stderr, "%v", u.failed(err))
		return nil
	}
}

// confirmTimeout bounds the wait for the server's answer about a held lock. It is shorter than the lease.
func (u *lockedRun) confirmTimeout() time.Duration { return time.Duration(u.lease) / 2 }

// unlock releases a lock under which nothing was done, so it ignores whether the lock was lost.
func unlock(ctx context.Context, lock heldLock) error {
	err := lock.Unlock(ctx)
	if errors.Is(err, pglock.ErrLost) {
		return nil
	}
	return err
}
