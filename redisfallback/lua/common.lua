-- What other scripts share, put where they say --include common. Its functions are made anew each time, so a script
-- that has a short way out takes it before.
--
-- KEYS: 1 the lock itself, 2 its shared holders, 3 its waiting writers, 4 its waiting readers. A script is given the
-- ones that it uses, in this order.
--
-- A waiter is written as "INSTANCE NUMBER TOKEN": the Locker to wake, which of its waiters, and the lock's token. Its
-- score is when it came. A shared holder is written the same way, and its score is when its lease is over, in
-- milliseconds of the server's clock.
local SHARED = 'pglock:shared'

local function millis()
	local t = redis.call('TIME')
	return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- wake tells a waiter to ask again. Whoever misses it looks by itself after a while.
local function wake(waiter)
	local locker, number = string.match(waiter, '^(%S+) (%S+) ')
	if string.sub(locker, 1, 1) == '/' then -- it listens in the lock's slot
		redis.pcall('SPUBLISH', string.match(KEYS[2], '^{%w+}:pglock:') .. 'wake:' .. locker, number)
	else
		redis.pcall('PUBLISH', 'pglock:wake:' .. locker, number)
	end
end

-- cover makes the lock last as long as the last of its shared holders.
local function cover()
	local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
	redis.call('PEXPIREAT', KEYS[1], last)
	redis.call('PEXPIREAT', KEYS[2], last)
end

-- queue puts a waiter where it stands already, or at the end.
local function queue(line, waiter, ttl)
	local t = redis.call('TIME')
	redis.call('ZADD', line, 'NX', t[1] * 1000000 + t[2], waiter)
	redis.call('PEXPIRE', line, ttl)
end

-- An offer is a lock that is held by a waiter for a short time, in which it has to confirm.
local function offer_to_writer(ttl)
	local waiter = redis.call('ZPOPMIN', KEYS[3])[1]
	if not waiter then return false end
	redis.call('SET', KEYS[1], string.match(waiter, '^%S+ %S+ (.*)$'), 'PX', ttl)
	redis.call('DEL', KEYS[2])
	wake(waiter)
	return true
end

local function offer_to_readers(ttl)
	local waiters = redis.call('ZRANGE', KEYS[4], 0, -1)
	if #waiters == 0 then return false end
	redis.call('DEL', KEYS[2], KEYS[4])
	redis.call('SET', KEYS[1], SHARED, 'PX', ttl)
	local over = millis() + ttl
	for _, waiter in ipairs(waiters) do
		redis.call('ZADD', KEYS[2], over, waiter)
		wake(waiter)
	end
	cover()
	return true
end

-- vacate gives the lock to who waits for it, writers and readers in turn, so that neither starves. A ttl of 0 only wakes
-- them, as befits one node of several, and one below does not even do that.
local function vacate(was_shared, ttl)
	if ttl < 0 then
		redis.call('DEL', KEYS[1], KEYS[2])
	elseif ttl == 0 then
		redis.call('DEL', KEYS[1], KEYS[2])
		local writer = redis.call('ZPOPMIN', KEYS[3])[1]
		if writer then wake(writer) end
		for _, reader in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do wake(reader) end
		redis.call('DEL', KEYS[4])
	elseif was_shared then
		if not (offer_to_writer(ttl) or offer_to_readers(ttl)) then redis.call('DEL', KEYS[1], KEYS[2]) end
	else
		if not (offer_to_readers(ttl) or offer_to_writer(ttl)) then redis.call('DEL', KEYS[1], KEYS[2]) end
	end
end

-- leave_exclusive gives up what has the token; 0 when that was not there.
local function leave_exclusive(token, ttl)
	if redis.call('GET', KEYS[1]) ~= token then return 0 end
	vacate(false, ttl)
	return 1
end

-- leave_shared takes a holder off, and those whose lease is over; 0 when it was not there, or was one of these.
local function leave_shared(holder, ttl)
	if redis.call('GET', KEYS[1]) ~= SHARED then return 0 end
	local over = redis.call('ZSCORE', KEYS[2], holder)
	if not over then return 0 end
	local t = millis()
	redis.call('ZREM', KEYS[2], holder)
	redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', t)
	if redis.call('EXISTS', KEYS[2]) == 1 then cover() else vacate(true, ttl) end
	if tonumber(over) > t then return 1 end
	return 0
end
