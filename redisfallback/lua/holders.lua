-- Returns the exclusive holder's token, or the shared holders. A foreign value may be very long: only its beginning is sent.
--include common
local value = redis.call('GET', KEYS[1])
if not value then return {} end
if value ~= SHARED then return {'exclusive', {string.sub(value, 1, 1024)}} end
return {'shared', redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. millis(), '+inf')}
