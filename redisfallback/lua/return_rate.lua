-- Gives back what was last taken from a rate limit, if nothing was taken since. KEYS: the limit. ARGV: its time after
-- that, in the form of take_rate, and its time before.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local t = redis.call('TIME')
local seconds, nanos = string.match(ARGV[2], '^(%-?%d+):(%d+)$')
local busy = (seconds - t[1]) * 1e9 + nanos - t[2] * 1000
if busy > 0 then
	redis.call('SET', KEYS[1], ARGV[2], 'PX', math.ceil(busy / 1e6) + 1)
else
	redis.call('DEL', KEYS[1])
end
return 1
