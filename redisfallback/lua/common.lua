-- Shared code, inserted where other scripts say --include common. Its functions are made anew each time, so a script
-- that can return early does so before the include.
--
-- KEYS: 1 the lock itself, 2 its shared holders, 3 its waiting writers, 4 its waiting readers. A script gets the ones
-- it uses, in this order.
--
-- A waiter is written as "LOCKER NUMBER TOKEN": the Locker to wake, which of its waiters, and what the lock contains when
-- it has it. Its score is when it arrived. A shared holder is written the same way, and its score is when its lease ends,
-- in milliseconds of the server's clock.
--
-- When the memory is full, Redis refuses commands that may need more of it, unless the script has already written. So
-- scripts that keep or release a lock begin with a command that needs no memory.
local SHARED = 'pglock:shared'

local function millis()
	local t = redis.call('TIME')
	return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- publish sends a message to a waiter's Locker, and returns whether it was received. A Locker that died has no
-- subscription. Nor has one that is just connecting; it asks again when it has subscribed. If the number of receivers
-- is unknown (a Cluster counts only those of one server, ~; or there is no permission) the answer is yes.
local function publish(waiter, message)
	local locker = string.match(waiter, '^%S+')
	local receivers = redis.pcall('PUBLISH', 'pglock:wake:' .. locker, message)
	return type(receivers) ~= 'number' or string.sub(locker, 1, 1) == '~' or receivers > 0
end

-- wake makes a waiter ask again, and returns whether its Locker received the message.
local function wake(waiter) return publish(waiter, string.match(waiter, '^%S+ (%S+) ')) end

-- alive returns whether a waiter's Locker receives messages. It sends one that is for none of its waiters.
local function alive(waiter) return publish(waiter, '0') end

-- foreign returns whether the value of a lock does not look like one of ours.
local function foreign(value)
	return value ~= SHARED and not (#value > 27 and string.find(value, '[A-Z2-7]+%-%d+%-?%d*$'))
end

-- cover makes the lock last as long as the last of its shared holders.
local function cover()
	local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
	redis.call('PEXPIREAT', KEYS[1], last)
	redis.call('PEXPIREAT', KEYS[2], last)
end

-- queue keeps a waiter in its place, or puts it at the end of the line, and returns how many are ahead.
local function queue(line, waiter, ttl)
	local rank = redis.call('ZRANK', line, waiter)
	if not rank then
		local t = redis.call('TIME')
		redis.call('ZADD', line, t[1] * 1000000 + t[2], waiter)
		rank = redis.call('ZRANK', line, waiter)
	end
	redis.call('PEXPIRE', line, ttl)
	return rank
end

-- bury removes the waiters before this one that died: only the first in line looks often at a lock whose holder is not
-- ours. It returns how many are ahead.
local function bury(line, waiter)
	local first = redis.call('ZRANGE', line, 0, 0)[1]
	while first ~= waiter and not alive(first) do
		redis.call('ZREM', line, first)
		first = redis.call('ZRANGE', line, 0, 0)[1]
	end
	return redis.call('ZRANK', line, waiter)
end

-- refuse answers a waiter that cannot have the lock: for how many milliseconds it is still leased, how many are ahead in
-- the line, and whether the holder is not ours.
local function refuse(value, line, waiter, ttl)
	local ahead, theirs = 0, foreign(value)
	if ttl ~= '0' then
		ahead = queue(line, waiter, ttl)
		if theirs and ahead > 0 then ahead = bury(line, waiter) end
	end
	return {0, redis.call('PTTL', KEYS[1]), ahead, theirs and 1 or 0}
end

-- An offer is a lock that a waiter holds for a short time, in which it must confirm. A waiter that does not receive the
-- message is skipped.
local function offer_to_writer(ttl)
	local waiter
	repeat
		waiter = redis.call('ZPOPMIN', KEYS[3])[1]
		if not waiter then return false end
	until wake(waiter)
	redis.call('SET', KEYS[1], string.match(waiter, '^%S+ %S+ (.*)$'), 'PX', ttl)
	redis.call('DEL', KEYS[2])
	return true
end

local function offer_to_readers(ttl)
	local waiters = redis.call('ZRANGE', KEYS[4], 0, -1)
	if #waiters == 0 then return false end
	redis.call('DEL', KEYS[2], KEYS[4])
	local over = millis() + ttl
	for _, waiter in ipairs(waiters) do
		if wake(waiter) then redis.call('ZADD', KEYS[2], over, waiter) end
	end
	if redis.call('EXISTS', KEYS[2]) == 0 then return false end
	redis.call('SET', KEYS[1], SHARED, 'PX', ttl)
	cover()
	return true
end

-- wake_next makes the first writer that receives the message, and all readers, ask again.
local function wake_next()
	local writer
	repeat
		writer = redis.call('ZPOPMIN', KEYS[3])[1]
	until not writer or wake(writer)
	for _, reader in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do wake(reader) end
	redis.call('DEL', KEYS[4])
end

-- vacate gives the lock to waiters, alternating between writers and readers so that neither starves. A ttl of 0 only
-- wakes them, which is for one node of several; a negative ttl does not even do that.
local function vacate(was_shared, ttl)
	local first, second = offer_to_readers, offer_to_writer
	if was_shared then first, second = second, first end
	if ttl > 0 and (first(ttl) or second(ttl)) then return end
	redis.call('DEL', KEYS[1], KEYS[2])
	if ttl == 0 then wake_next() end
end
