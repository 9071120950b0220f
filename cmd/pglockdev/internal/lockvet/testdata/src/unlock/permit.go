package unlock

import (
	"context"

	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

func droppedPermit(ctx context.Context, s *semaphore.Semaphore) error {
	_, err := s.TryAcquire(ctx) // want `the permit is dropped, so it is held until its Locker is closed: keep it and Release it`
	return err
}

func keptPermit(ctx context.Context, s *semaphore.Semaphore) error {
	p, err := s.AcquireN(ctx, 2) // want `the permit p is not released on the path that returns in line 20: defer p.Release\(ctx\)`
	if err != nil {
		return err
	}
	if err := p.Context(ctx).Err(); err != nil {
		return err
	}
	return p.Release(ctx)
}

func releasedPermit(ctx context.Context, s *semaphore.Semaphore) error {
	p, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	defer p.Release(ctx)
	return work()
}

func passedPermit(ctx context.Context, s *semaphore.Semaphore) (*semaphore.Permit, error) {
	return s.Acquire(ctx)
}
