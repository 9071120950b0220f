package lockvet

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Option reports options that compile, since several calls share their type, but that the call refuses when it runs.
var Option = &analysis.Analyzer{
	Name: "pglockoption",
	Doc:  "find options that the call refuses",
	Run:  runOption,
}

// refusal is what calls refuse, and why.
type refusal struct {
	options []string
	why     string
}

const (
	neverWaits = "the call never waits: use the one without Try"
	exclusive  = "permits, jobs and records are held exclusively"
)

// refused returns what a function or method refuses.
func refused(f *types.Func) []refusal {
	switch {
	case isMethod(f, pglock, "Locker", "TryLock", "TryLockAll", "TryDo"), isFunc(f, sqltx, "TryLockTx"),
		isFunc(f, pglock, "TryLockTx", "QueueTryLockTx", "QueueTryLockAllTx"):
		return []refusal{{[]string{"MaxWait"}, neverWaits}}
	case isMethod(f, semaphore, "Semaphore", "TryAcquire"):
		return append(ofSemaphore, refusal{[]string{"MaxWait"}, neverWaits})
	case isMethod(f, semaphore, "Semaphore", "Acquire", "AcquireN", "Do"):
		return ofSemaphore
	case isFunc(f, semaphore, "AcquireTx"), isMethod(f, schedule, "Job", "Run", "RunTx"):
		return []refusal{{[]string{"Shared"}, exclusive}}
	case isMethod(f, once, "Scope", "Tx", "Queue"), isFunc(f, once, "Result"):
		return []refusal{{[]string{"Shared"}, exclusive}, {[]string{"AllowStaleSnapshot", "AllowStandby"}, "the call writes a record"}}
	case isMethod(f, ratelimit, "Limiter", "Wait", "WaitN", "Reserve", "ReserveN"):
		return []refusal{{[]string{"Shared", "MaxHold", "WithToken", "RetryUnavailable"}, "a rate limit is no lock: its only option is MaxWait"}}
	}
	return nil
}

var ofSemaphore = []refusal{
	{[]string{"Shared"}, exclusive},
	{[]string{"WithToken"}, "the lock of each slot has its own token"},
	{[]string{"RetryUnavailable"}, "an outage fails all waiters, which have to ask again"},
}

func runOption(pass *analysis.Pass) (any, error) {
	calls(pass, func(call *ast.CallExpr) {
		f := callee(pass, call)
		if f == nil || f.Pkg() == nil || !strings.HasPrefix(f.Pkg().Path(), pglock) {
			return
		}
		for _, argument := range call.Args {
			if option, ok := ast.Unparen(argument).(*ast.CallExpr); ok {
				checkOption(pass, f, option)
			}
		}
	})
	return nil, nil
}

// checkOption reports an option that the function f refuses.
func checkOption(pass *analysis.Pass, f *types.Func, option *ast.CallExpr) {
	o := callee(pass, option)
	if isFunc(o, golangmigrate, "NativeWait") && !isFunc(f, golangmigrate, "Open") {
		pass.Reportf(option.Pos(), "%s refuses NativeWait, which is for golangmigrate.Open alone: MaxWait bounds the wait", f.Name())
	}
	for _, r := range refused(f) {
		if isFunc(o, pglock, r.options...) {
			pass.Reportf(option.Pos(), "%s refuses %s: %s", f.Name(), o.Name(), r.why)
		}
	}
}
