-- Takes a lock exclusively, or enters its line. ARGV: token, lease, waiter, how long the line lasts (0: do not enter it),
-- whether this waiter has asked before.
local value = redis.call('GET', KEYS[1])
local mine = value == ARGV[1] and ARGV[5] == '1'
if mine then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
elseif not value then
	redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
if mine or not value then
	if ARGV[5] == '1' then redis.call('ZREM', KEYS[3], ARGV[3]) end
	return 1
end
--include common
return refuse(value, KEYS[3], ARGV[3], ARGV[4])
