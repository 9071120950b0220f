-- Releases an exclusive lock; 0 if it does not have the token. ARGV: token, how long an offer lasts, the waiter that leaves
-- the line as well, or nothing.
if ARGV[3] ~= '' then redis.call('ZREM', KEYS[3], ARGV[3]) end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('EXISTS', KEYS[3], KEYS[4]) == 0 then
	redis.call('DEL', KEYS[1])
	return 1
end
--include common
vacate(false, tonumber(ARGV[2]))
return 1
