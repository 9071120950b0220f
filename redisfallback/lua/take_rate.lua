-- Lets through what a rate limit has room for (GCRA). KEYS: the limit. ARGV: for each run of requests, by how much one
-- of them moves the limit's time, how far that may be ahead of the clock, how many requests there are, and how much
-- further ahead the time may be for them; in nanoseconds. Runs are decided in order. If the last value is 0, a request
-- is let through now or refused, and after a refusal later ones like it are refused too.
--
-- The limit's time is kept as "SECONDS:NANOSECONDS", since Lua's numbers are exact only up to 2^53. The script
-- calculates with differences from now, which stay below that.
local t = redis.call('TIME')
local value = redis.call('GET', KEYS[1])
local busy = 0
if value then
	local seconds, nanos = string.match(value, '^(%-?%d+):(%d+)$')
	busy = math.max(0, (seconds - t[1]) * 1e9 + nanos - t[2] * 1000)
end
local reply = {tonumber(t[1]), tonumber(t[2])}
local refused, changed = false, false
for i = 1, #ARGV, 4 do
	local price, tolerance, count, patience =
		tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
	local room = tolerance + patience - busy
	local granted = 0
	if room >= price and not (refused and patience == 0) then
		granted = math.floor(room / price)
		if granted * price > room then granted = granted - 1 end -- the quotient was rounded up
		granted = math.min(count, granted)
	end
	reply[#reply + 1], reply[#reply + 2] = granted, busy
	if granted > 0 then
		busy = busy + granted * price
		changed = true
	end
	if granted < count and patience == 0 then refused = true end
end
if changed then
	local nanos = t[2] * 1000 + busy
	local seconds = math.floor(nanos / 1e9)
	local text = string.format('%.0f:%.0f', t[1] + seconds, nanos - seconds * 1e9)
	redis.call('SET', KEYS[1], text, 'PX', math.ceil(busy / 1e6) + 1)
end
return reply
