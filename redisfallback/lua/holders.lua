-- Returns the exclusive holder's token, or the shared holders.
--include common
local value = redis.call('GET', KEYS[1])
if not value then return {} end
if value ~= SHARED then return {'exclusive', {value}} end
return {'shared', redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. millis(), '+inf')}
