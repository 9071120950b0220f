-- Takes several locks, or none of them. KEYS: four for each lock. ARGV: token, lease, waiter, whether shared.
--include common
local shared = ARGV[4] == '1'
for i = 1, #KEYS, 4 do
	local value = redis.call('GET', KEYS[i])
	if value and not (shared and value == SHARED and redis.call('EXISTS', KEYS[i + 2]) == 0) then return 0 end
end
for i = 1, #KEYS, 4 do
	if not shared then
		redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
		if chosen(ARGV[3]) then redis.call('SET', owner_key(KEYS[i], KEYS[i + 1]), ARGV[3], 'PX', ARGV[2]) end
	else
		if redis.call('SET', KEYS[i], SHARED, 'NX', 'PX', ARGV[2]) then redis.call('DEL', KEYS[i + 1]) end
		redis.call('ZADD', KEYS[i + 1], millis() + ARGV[2], ARGV[3])
		local last = redis.call('ZRANGE', KEYS[i + 1], -1, -1, 'WITHSCORES')[2]
		redis.call('PEXPIREAT', KEYS[i], last)
		redis.call('PEXPIREAT', KEYS[i + 1], last)
	end
end
return 1
