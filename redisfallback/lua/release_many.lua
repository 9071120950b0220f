-- Releases many exclusive locks without waiters. KEYS: the locks, then for each its waiting writers and readers. ARGV:
-- the tokens. Returns for each 1, 0 if it was not held, or 2 if it is still held because it has waiters.
local n, result, own = #ARGV, {}, {}
local values = redis.call('MGET', unpack(KEYS, 1, n))
local waited_for = redis.call('EXISTS', unpack(KEYS, n + 1)) > 0
for i = 1, n do
	if values[i] ~= ARGV[i] then
		result[i] = 0
	elseif waited_for and redis.call('EXISTS', KEYS[n + 2 * i - 1], KEYS[n + 2 * i]) > 0 then
		result[i] = 2
	else
		result[i] = 1
		own[#own + 1] = KEYS[i]
	end
end
if #own > 0 then redis.call('DEL', unpack(own)) end
return result
