-- Joins the shared holders, or enters the line. ARGV: lease, holder, waiter, how long the line lasts (0: do not enter it).
--include common
local value, t = redis.call('GET', KEYS[1]), millis()
local over = value == SHARED and redis.call('ZSCORE', KEYS[2], ARGV[2])
local offered = over and tonumber(over) > t
if offered then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
if not value then
	redis.call('DEL', KEYS[2])
	redis.call('SET', KEYS[1], SHARED, 'PX', ARGV[1])
end
if offered or not value or (value == SHARED and redis.call('EXISTS', KEYS[3]) == 0) then
	redis.call('ZADD', KEYS[2], t + ARGV[1], ARGV[2])
	redis.call('ZREM', KEYS[4], ARGV[3])
	cover()
	return 1
end
return refuse(value, KEYS[4], ARGV[3], ARGV[4])
