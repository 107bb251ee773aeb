-- The same decisions, each request on its own, and nothing changed: no housekeeping either.
local reply = {ARGV[first_request], now}
local ids, resent, weighted, adds, costs_by_id = {}, true, false, nil, nil
for r = first_request, #ARGV, 2 do ids[#ids + 1] = ARGV[r] end

for _, counter in ipairs(counters) do
  counter:read(now)
end
for _, log in ipairs(logs) do
  log:read(callers_clock)
end
if has_logs then
  weighted = call('EXISTS', KEYS[first_companion], KEYS[#KEYS]) > 0
end
for _, log in ipairs(logs) do
  log:read_companion(weighted, ids, resent)
  log:peek(now, weighted, ids)
end
for _, ceiling in ipairs(ceilings) do
  ceiling:state(reply)
end

for n = 1, #ids do
  local known = nil
  local cost = tonumber(string.match(ARGV[first_request + 2 * n - 1], '%d+'))
  for _, log in ipairs(logs) do
    if not known and log.scores[n] then
      known = tonumber(weighted and call('HGET', log.companion, ids[n]) or 1)
    end
  end
  local admitted = true
  for _, ceiling in ipairs(ceilings) do
    ceiling:try(cost)
    admitted = admitted and ceiling.fits
  end
  local verdict = 0
  if known then
    verdict = 1 + known
  elseif cost == 0 or admitted then
    verdict = 1
  end
  reply[#reply + 1] = verdict
  for _, log in ipairs(limiting_logs) do
    if verdict == 0 then
      log:wait(now, cost, weighted, adds, costs_by_id)
      reply[#reply + 1] = log.room_after
    end
    log:report(now, verdict, cost, weighted)
  end
end
for _, log in ipairs(limiting_logs) do
  reply[log.slot + 1] = log.newest or -1
end
return reply
