-- ARGV: holder, how long an offer lasts.
--include common
return leave_shared(ARGV[1], tonumber(ARGV[2]))
