-- Uses every command that other scripts use, on the keys of a lock that does not exist, so that a right that is missing
-- shows before a lock is taken that could not be kept. The first command needs no memory.
local lock, set = KEYS[1], KEYS[2]
for _, command in ipairs({
	{'DEL', lock}, {'GET', lock}, {'SET', lock, '', 'XX', 'PX', 1}, {'EXISTS', lock}, {'PTTL', lock}, {'PEXPIRE', lock, 1},
	{'PEXPIREAT', lock, 1}, {'TIME'}, {'ZADD', set, 'XX', 0, ''}, {'ZREM', set, ''}, {'ZRANGE', set, 0, 0}, {'ZRANK', set, ''},
	{'ZSCORE', set, ''}, {'ZPOPMIN', set}, {'ZRANGEBYSCORE', set, 0, 0}, {'ZREMRANGEBYSCORE', set, 0, 0},
}) do
	local reply = redis.pcall(unpack(command))
	if type(reply) == 'table' and reply.err then
		if string.find(reply.err, 'NOPERM', 1, true) or string.find(reply.err, 'The user executing the script', 1, true) then
			return redis.error_reply('NOPERM this user has no permissions to run the command ' .. command[1])
		end
		return reply
	end
end
return 1
