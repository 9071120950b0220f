-- Draws a fencing token. KEYS: the lock, its shared holders, the slot's counter. ARGV: token or holder, whether shared,
-- the smallest number allowed. The counter never falls behind the clock, in microseconds, so numbers keep growing even when
-- the server has lost the counter. Lua's numbers are exact up to 2^53, which is the year 2255.
--include common
local held
if ARGV[2] == '1' then
	local over = redis.call('GET', KEYS[1]) == SHARED and redis.call('ZSCORE', KEYS[2], ARGV[1])
	held = over and tonumber(over) > millis()
else
	held = redis.call('GET', KEYS[1]) == ARGV[1]
end
if not held then return false end
local t = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[3]) or 0)
local number = math.max(last + 1, t[1] * 1000000 + t[2], tonumber(ARGV[3]))
local text = string.format('%.0f', number)
redis.call('SET', KEYS[3], text)
return text
