-- Ends a wait, and gives back what it may have got. ARGV: waiter, how long an offer lasts.
--include common
redis.call('ZREM', KEYS[4], ARGV[1])
return leave_shared(ARGV[1], tonumber(ARGV[2]))
