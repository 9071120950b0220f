-- Gives back what was last taken from a rate limit, if nothing was taken since. KEYS: the limit. ARGV: the limit's time
-- after that, in seconds and nanoseconds, and by how much to move it back.
local value = redis.call('GET', KEYS[1])
if not value then return 0 end
local seconds, micros, ahead = string.match(value, '^(%d+):(%d+):(%d+)$')
if (ARGV[1] - seconds) * 1e9 + ARGV[2] - micros * 1000 ~= tonumber(ahead) then return 0 end
local t = redis.call('TIME')
local left = ahead - ARGV[3]
local busy = left - math.max(0, (t[1] - seconds) * 1e9 + (t[2] - micros) * 1000)
if busy > 0 then
	redis.call('SET', KEYS[1], string.format('%s:%s:%.0f', seconds, micros, left), 'PX', math.ceil(busy / 1e6) + 1)
else
	redis.call('DEL', KEYS[1])
end
return 1
