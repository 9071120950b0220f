-- Renews a lock whose token was chosen. ARGV: token, lease, waiter.
--include common
if not owns(ARGV[1], ARGV[3]) then return 0 end
redis.call('PEXPIRE', owner_key(KEYS[1], KEYS[2]), ARGV[2])
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
