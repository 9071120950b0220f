-- Ends a wait, and gives back what it may have got. ARGV: token, waiter, how long an offer lasts.
--include common
redis.call('ZREM', KEYS[3], ARGV[2])
return leave_exclusive(ARGV[1], tonumber(ARGV[3]))
