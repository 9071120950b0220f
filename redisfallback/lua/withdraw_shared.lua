-- Ends a wait, and releases the lock if the waiter got it. ARGV: waiter, how long an offer lasts.
--include common
redis.call('ZREM', KEYS[4], place(ARGV[1]))
return leave_shared(ARGV[1], tonumber(ARGV[2]))
