-- ARGV: holder.
--include common
if redis.call('GET', KEYS[1]) ~= SHARED then return 0 end
local over = redis.call('ZSCORE', KEYS[2], ARGV[1])
if over and tonumber(over) > millis() then return 1 end
return 0
