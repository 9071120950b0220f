-- Takes many exclusive locks, each independently. ARGV: lease, then the tokens. Returns for each 1, or 0 if it is held.
local result = {}
for i = 1, #KEYS do
	result[i] = redis.call('SET', KEYS[i], ARGV[i + 1], 'NX', 'PX', ARGV[1]) and 1 or 0
end
return result
