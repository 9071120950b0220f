package combine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// item is what a goroutine asks for.
type item struct{ answered chan struct{} }

func answer(batch []*item) {
	for _, i := range batch {
		close(i.answered)
	}
}

func TestEveryItemIsAnsweredOnceHoweverManyGoroutinesAddAtOnce(t *testing.T) {
	for _, senders := range []int{0, 1, 3} {
		q := &Queue[*item]{Send: answer, Senders: senders, Most: 7}
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				for range 200 {
					i := &item{make(chan struct{})}
					q.Add(i)
					<-i.answered // a second answer would panic
				}
			})
		}
		callers.Wait()
		q.Wait(t.Context())
		if q.Len() != 0 || q.underWay != 0 || q.senders != 0 {
			t.Errorf("%d senders: at the end %d are queued, %d under way, and %d senders run", senders, q.Len(), q.underWay, q.senders)
		}
	}
}

func TestWhatIsAddedWhileABatchIsUnderWayGoesTogetherIntoTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		answer := make(chan struct{})
		q := &Queue[int]{Send: func(batch []int) { batches = append(batches, batch); <-answer }, Most: 3}
		for i := range 6 {
			q.Add(i)
			synctest.Wait()
		}
		for range 3 {
			answer <- struct{}{}
			synctest.Wait()
		}
		want := [][]int{{0}, {1, 2, 3}, {4, 5}}
		for i, batch := range batches {
			if len(batches) != len(want) || len(batch) != len(want[i]) || batch[0] != want[i][0] {
				t.Fatalf("the batches were %v, want %v", batches, want)
			}
		}
	})
}

func TestTheBatchesUnderWayAreOfOneSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		answer := make(chan struct{})
		q := &Queue[int]{Send: func(batch []int) { sizes = append(sizes, len(batch)); <-answer }, Senders: 2}
		q.Add(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
		synctest.Wait()
		q.Add() // nothing new, but a sender is free
		synctest.Wait()
		if len(sizes) != 2 || sizes[0] != 5 || sizes[1] != 5 {
			t.Errorf("two batches of ten items have %v", sizes)
		}
		close(answer)
	})
}

func TestAnItemIsWithdrawnOnlyBeforeItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		answer := make(chan struct{})
		q := &Queue[int]{Send: func(batch []int) { sent.Add(int32(len(batch))); <-answer }}
		q.Add(1)
		synctest.Wait()
		q.Add(2)
		if q.Withdraw(1) || !q.Withdraw(2) || q.Withdraw(2) {
			t.Error("the first was sent and the second was not")
		}
		close(answer)
		q.Wait(t.Context())
		if sent.Load() != 1 {
			t.Errorf("%d items were sent, want 1", sent.Load())
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		q := &Queue[int]{Send: func([]int) { <-answer }}
		q.Wait(t.Context()) // nothing is queued
		q.Add(1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		q.Wait(ctx)
		close(answer)
		q.Wait(t.Context())
	})
}
