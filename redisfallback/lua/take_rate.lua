-- Lets through what a rate limit has room for (GCRA). KEYS: the limit. ARGV: for each run of requests, by how much one
-- of them moves the limit's time, how far that may be ahead of the clock, how many requests there are, and how much
-- further ahead the time may be for them; in nanoseconds. Runs are decided in order. If the last value is 0, a request
-- is let through now or refused, and after a refusal later ones like it are refused too.
--
-- What is kept is the time of the last decision and how far the limit's time was ahead of it, as
-- "SECONDS:MICROSECONDS:NANOSECONDS", since Lua's numbers are exact only up to 2^53: the script calculates with
-- differences from now, which stay below that. If the clock has been set back since, the limit's time is as far ahead
-- as it was, and that is kept even if nothing is let through, so that it becomes less from then on.
local t = redis.call('TIME')
local value = redis.call('GET', KEYS[1])
local busy, changed = 0, false
if value then
	local seconds, micros, ahead = string.match(value, '^(%d+):(%d+):(%d+)$')
	local since = (t[1] - seconds) * 1e9 + (t[2] - micros) * 1000
	busy = math.max(0, ahead - math.max(0, since))
	changed = since < 0
end
local reply = {tonumber(t[1]), tonumber(t[2])}
local refused = false
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
	local text = string.format('%s:%s:%.0f', t[1], t[2], busy)
	redis.call('SET', KEYS[1], text, 'PX', math.ceil(busy / 1e6) + 1)
end
return reply
