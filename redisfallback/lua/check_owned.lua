-- Checks a lock whose token was chosen. ARGV: token, waiter.
--include common
if owns(ARGV[1], ARGV[2]) then return 1 end
return 0
