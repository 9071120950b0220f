-- ARGV: token, how long an offer lasts.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('EXISTS', KEYS[3], KEYS[4]) == 0 then
	redis.call('DEL', KEYS[1])
	return 1
end
--include common
vacate(false, tonumber(ARGV[2]))
return 1
