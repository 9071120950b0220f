-- Takes the lock, or enters its line. ARGV: token, lease, waiter, how long the line lasts (0: do not enter it), whether
-- this waiter has asked before.
--include common
local value, owned = redis.call('GET', KEYS[1]), chosen(ARGV[3])
local owner = owned and owner_key(KEYS[1], KEYS[2])
local mine = value == ARGV[1] and ARGV[5] == '1' and not redis.call('ZSCORE', KEYS[3], place(ARGV[3]))
if mine and owned then mine = redis.call('GET', owner) == ARGV[3] end
if mine or not value then
	if mine then
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
	else
		redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
	end
	if owned then redis.call('SET', owner, ARGV[3], 'PX', ARGV[2]) end
	redis.call('ZREM', KEYS[3], place(ARGV[3]))
	return {1, 0}
end
return refuse(value, KEYS[3], ARGV[3], ARGV[4])
