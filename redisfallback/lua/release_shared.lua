-- Removes a shared holder, and all those whose leases have ended; 0 if it was not there, or its lease had ended. ARGV:
-- holder, how long an offer lasts, the waiter that leaves the line as well, or nothing.
--include common
if ARGV[3] ~= '' then redis.call('ZREM', KEYS[4], ARGV[3]) end
if redis.call('GET', KEYS[1]) ~= SHARED then return 0 end
local over = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not over then return 0 end
local t = millis()
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', t)
if redis.call('EXISTS', KEYS[2]) == 1 then cover() else vacate(true, tonumber(ARGV[2])) end
if tonumber(over) > t then return 1 end
return 0
