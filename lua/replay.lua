-- Puts back what a failover lost: each charge where it was, at its own instant, in every log that
-- still counts it, whatever the limit says: it was admitted. What is there stays as it is.
-- Three arguments a charge: id, units, '<us>' or '<us> <us a lease is held>'; the first is its
-- instant.
for _, log in ipairs(logs) do
  log:read(callers_clock)
end
local restored = 0
for r = first_request, #ARGV, 3 do
  local id, cost, back = ARGV[r], tonumber(ARGV[r + 1]), 0
  local at, held = string.match(ARGV[r + 2], '^(%d+) ?(%d*)$')
  for _, log in ipairs(logs) do
    log:replay(now, id, cost, at, held)
    if log.restored then back = 1 end
  end
  restored = restored + back
end
if restored > 0 then call('UNLINK', KEYS[1] .. ':n') end
for _, log in ipairs(logs) do
  log:extend(now)
end
return {ARGV[first_request], now, restored}
