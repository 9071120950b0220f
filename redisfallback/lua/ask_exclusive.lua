-- Takes the lock, or stands in line. ARGV: token, lease, waiter, how long the line lasts (0: do not stand in line),
-- whether this waiter has asked before.
--include common
local value = redis.call('GET', KEYS[1])
local mine = value == ARGV[1] and ARGV[5] == '1' and not redis.call('ZSCORE', KEYS[3], ARGV[3])
if mine or not value then
	redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
	redis.call('ZREM', KEYS[3], ARGV[3])
	return {1, 0}
end
if ARGV[4] ~= '0' then queue(KEYS[3], ARGV[3], ARGV[4]) end
return {0, redis.call('PTTL', KEYS[1])}
