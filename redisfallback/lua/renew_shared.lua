-- ARGV: holder, lease.
--include common
if redis.call('GET', KEYS[1]) ~= SHARED then return 0 end
local over, t = redis.call('ZSCORE', KEYS[2], ARGV[1]), millis()
if not over or tonumber(over) <= t then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('ZADD', KEYS[2], t + ARGV[2], ARGV[1])
cover()
return 1
