-- Ends a wait with a token that was chosen, and releases the lock if the waiter got it. ARGV: token, waiter, how long
-- an offer lasts.
--include common
redis.call('ZREM', KEYS[3], place(ARGV[2]))
local owner = owner_key(KEYS[1], KEYS[2])
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', owner) ~= ARGV[2] then return 0 end
redis.call('DEL', owner)
vacate(false, tonumber(ARGV[3]))
return 1
