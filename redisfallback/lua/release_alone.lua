-- Releases an exclusive lock while its slot migrates, when no script can use more than one key. ARGV: token.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
