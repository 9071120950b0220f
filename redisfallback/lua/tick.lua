-- Looks at a run of a scheduled job, or records a step of it. KEYS: the job's runs. ARGV: when it is due, the step, how
-- long records are kept (0: for ever), how many of the newest due times before it to return. Times are microseconds
-- since 1970 by the server's clock, which Lua's numbers represent exactly up to the year 2255.
--
-- The runs that are done are in a sorted set, with their due times as scores. Its member PRUNED has the highest due
-- time of a deleted run, and stays for ever.
local PRUNED = 'pruned'
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local due, step, keep, newest = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local function text(number) return string.format('%.0f', number) end

local pruned = tonumber(redis.call('ZSCORE', KEYS[1], PRUNED) or nil)
local done = redis.call('ZSCORE', KEYS[1], text(due)) or (pruned and due <= pruned)
local reply = {1, text(now), done and 1 or 0}
if newest > 0 then
	local members = redis.call('ZRANGE', KEYS[1], '(' .. text(due), '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, newest + 1)
	for _, member in ipairs(members) do
		if member ~= PRUNED and #reply < 3 + newest then reply[#reply + 1] = member end
	end
end
if done or due > now or (step ~= 'start' and step ~= 'done') then return reply end

redis.call('ZADD', KEYS[1], text(due), text(due))
if keep > 0 then
	local limit = '(' .. text(math.min(now - keep, due))
	for _, member in ipairs(redis.call('ZRANGE', KEYS[1], limit, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 2)) do
		if member ~= PRUNED then
			redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', limit)
			redis.call('ZADD', KEYS[1], text(math.max(tonumber(member), pruned or tonumber(member))), PRUNED)
			break
		end
	end
end
return reply
