-- Shared code, inserted where other scripts say --include common. Its functions are made anew each time, so a script
-- that can return early does so before the include.
--
-- KEYS: 1 the lock itself, 2 its shared holders, 3 its waiting writers, 4 its waiting readers. A script gets the ones
-- it uses, in this order.
--
-- A waiter is written as "INSTANCE NUMBER TOKEN": the Locker to wake, which of its waiters, and the lock's token. Its
-- score is when it arrived. A shared holder is written the same way, and its score is when its lease ends, in
-- milliseconds of the server's clock. A NUMBER that ends in ! belongs to a token that the caller chose. Others may have
-- the same token, so a fifth key beside the lock says which waiter holds it.
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
	local kind, receivers = string.sub(locker, 1, 1), nil
	if kind == '/' then -- it listens in the lock's slot
		receivers = redis.pcall('SPUBLISH', string.match(KEYS[2], '^{%w+}:pglock:') .. 'wake:' .. locker, message)
	else
		receivers = redis.pcall('PUBLISH', 'pglock:wake:' .. locker, message)
	end
	return type(receivers) ~= 'number' or kind == '~' or receivers > 0
end

-- wake makes a waiter ask again, and returns whether its Locker received the message.
local function wake(waiter) return publish(waiter, string.match(waiter, '^%S+ (%S+) ')) end

-- alive returns whether a waiter's Locker receives messages. It sends one that is for none of its waiters.
local function alive(waiter) return publish(waiter, '0') end

-- chosen returns whether a waiter's token was chosen by its caller.
local function chosen(waiter) return string.find(waiter, '^%S+ [%d.]+! ') end

-- place returns the name of a waiter in the lines, which is the same for all its attempts.
local function place(waiter) return (string.gsub(waiter, '^(%S+ %d+)%.%d+', '%1')) end

-- owner_key returns the key that contains the waiter that holds the lock, if its token was chosen.
local function owner_key(lock, shared) return string.match(shared, '^{%w+}:pglock:') .. 'owner:' .. lock end

-- owns returns whether a waiter with a chosen token holds the lock. If no owner is known, the lock was taken while its
-- slot migrated, or by another client for us, and the token decides.
local function owns(token, waiter)
	if redis.call('GET', KEYS[1]) ~= token then return false end
	local owner = redis.call('GET', owner_key(KEYS[1], KEYS[2]))
	return not owner or owner == waiter
end

-- foreign returns whether the value of a lock does not look like one of ours.
local function foreign(value)
	return value ~= SHARED and not (#value > 27 and string.find(value, '^[A-Z2-7]+%-%d+%-?%d*$'))
end

-- cover makes the lock last as long as the last of its shared holders.
local function cover()
	local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
	redis.call('PEXPIREAT', KEYS[1], last)
	redis.call('PEXPIREAT', KEYS[2], last)
end

-- queue keeps a waiter in its place, or puts it at the end of the line, and returns whether it is the first.
local function queue(line, waiter, ttl)
	local rank = redis.call('ZRANK', line, waiter)
	if not rank then
		local t = redis.call('TIME')
		redis.call('ZADD', line, t[1] * 1000000 + t[2], waiter)
		rank = redis.call('ZRANK', line, waiter)
	end
	redis.call('PEXPIRE', line, ttl)
	return rank == 0
end

-- lead is queue, but first removes the waiters before it that died: only the first in line polls often a lock whose
-- holder is not ours.
local function lead(line, waiter, ttl)
	if queue(line, waiter, ttl) then return true end
	local first = redis.call('ZRANGE', line, 0, 0)[1]
	while first ~= waiter and not alive(first) do
		redis.call('ZREM', line, first)
		first = redis.call('ZRANGE', line, 0, 0)[1]
	end
	return first == waiter
end

-- refuse answers a waiter that cannot have the lock: how long it is still leased, and whether to poll often.
local function refuse(value, line, waiter, ttl)
	local often = 0
	waiter = place(waiter)
	if ttl ~= '0' then
		if not foreign(value) then
			queue(line, waiter, ttl)
		elseif lead(line, waiter, ttl) then
			often = 1
		end
	end
	return {0, redis.call('PTTL', KEYS[1]), often}
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
	if chosen(waiter) then redis.call('SET', owner_key(KEYS[1], KEYS[2]), waiter, 'PX', ttl) end
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

-- leave_exclusive releases the lock if it has the token; 0 if it has not.
local function leave_exclusive(token, ttl)
	if redis.call('GET', KEYS[1]) ~= token then return 0 end
	vacate(false, ttl)
	return 1
end

-- leave_shared removes a holder, and all those whose leases have ended; 0 if it was not there, or its lease had ended.
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
