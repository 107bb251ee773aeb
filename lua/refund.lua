-- Gives a charge back in every ceiling that still counts it, whole or in part.
local id, asked = ARGV[first_request], tonumber(ARGV[first_request + 1])
local ids, resent, total = {id}, true, 0

for _, counter in ipairs(counters) do
  counter:read(now)
end
for _, log in ipairs(logs) do
  log:read(callers_clock)
end
local weighted = call('EXISTS', KEYS[first_companion], KEYS[#KEYS]) > 0
for _, log in ipairs(logs) do
  log:read_companion(weighted, ids, resent)
end
local had, at, given = nil, nil, 0 -- what the charge holds, since when, and what is given back
for _, log in ipairs(logs) do
  log:settle(now, callers_clock, weighted, total, ids)
  log:trace(now, id)
  had, at = had or log.charged, at or log.charged_at
end

local units = had and math.min(asked or had, had) or 0
for _, counter in ipairs(counters) do
  if had then
    counter:give(now, at, had, units)
    given = math.max(given, counter.given)
  end
  counter:write(now)
end
-- a record of ids holds what no ceiling could give back: sent again, it is still known
if has_record then units = given end
for _, log in ipairs(logs) do
  log:give(id, units)
  given = math.max(given, log.given)
end
return {id, now, given}
