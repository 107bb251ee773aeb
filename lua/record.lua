-- The callers' charge ids where no log holds them: two hashes by turns, each for one era of at
-- least the longest window, so that forgetting needs no walk. '\tera' = the era's number; id =
-- '<units> <us>'. KEYS: the hashes of even and odd eras. ARGV: era (us), expiry (ms).

--@ section weigh
local era = math.floor(now / tonumber(A[_p_]))
local even = era % 2 == 0
local young, old = K[even and _e_ or _e_ + 1], K[even and _e_ + 1 or _e_]
local young_era, old_era = tonumber(call('HGET', young, '\tera')), tonumber(call('HGET', old, '\tera'))
-- an era ahead is a clock's that stepped back: what it holds still holds
local young_holds = young_era and young_era >= era
local old_holds = old_era and (old_era == era - 1 or old_era > era)

--@ section find
if how == 'c' then
  seen = seen or young_holds and call('HEXISTS', young, id) == 1
    or old_holds and call('HEXISTS', old, id) == 1
end

--@ section keep
if how == 'c' then
  records = records or {}
  records[#records + 1] = id
  records[#records + 1] = string.format('%d %d', cost, now)
  names = names or {}
  names[id] = true
end

--@ section remember
if records then
  if not young_holds then call('UNLINK', young) end
  call('HSET', young, '\tera', string.format('%d', era), unpack(records))
  if call('PTTL', young) < tonumber(A[_p_ + 1]) / 2 then call('PEXPIRE', young, A[_p_ + 1]) end
end

--@ section retrace
--@ once weigh
local entry = young_holds and call('HGET', young, id) or old_holds and call('HGET', old, id)
local hash = entry and (young_holds and call('HEXISTS', young, id) == 1 and young or old)
if entry then
  local units, us = string.match(entry, '^(%d+) (%d+)$')
  had, at = tonumber(units), tonumber(us)
end

--@ section regive
if given > 0 then
  if given >= had then
    call('HDEL', hash, id)
  else
    call('HSET', hash, id, string.format('%d %d', had - given, at))
  end
end
