-- Releases a lock whose token was chosen. ARGV: token, how long an offer lasts, waiter.
--include common
if not owns(ARGV[1], ARGV[3]) then return 0 end
redis.call('DEL', owner_key(KEYS[1], KEYS[2]))
vacate(false, tonumber(ARGV[2]))
return 1
