-- Ends a wait, and releases the lock if the waiter got it. ARGV: token, waiter, how long an offer lasts.
--include common
redis.call('ZREM', KEYS[3], place(ARGV[2]))
return leave_exclusive(ARGV[1], tonumber(ARGV[3]))
