-- Takes a lock exclusively if it is free, for a waiter, which then asks again. ARGV: token, lease.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return {0, redis.call('PTTL', KEYS[1]), 0, 1}
