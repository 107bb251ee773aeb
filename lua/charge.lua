-- One call: requests of one subject, decided in order, each against all ceilings or none.
-- Reads and checks everything before it writes. A denial writes nothing but the housekeeping that
-- time alone would do: what expired goes, what a clock left in the future comes back.

-- Two arguments a request: its id; where that comes from, units, and how long a lease is held.
local REQUEST = '^(%a)(%d+)%+?(%d*)$'
local many = ARGV[first_request + 2] ~= nil
local origin, cost, held = 'f', 1, nil
if ARGV[first_request + 1] ~= 'f1' then
  origin, cost, held = string.match(ARGV[first_request + 1], REQUEST)
  cost, held = tonumber(cost), tonumber(held)
end
-- an id that was never sent before can be known only when this very call is carried twice
local total, resent = cost, origin ~= 'f'
for r = first_request + 3, many and #ARGV or 0, 2 do
  resent = resent or string.sub(ARGV[r], 1, 1) ~= 'f'
  total = total + string.match(ARGV[r], '%d+')
end
local look = has_logs and (many or resent)

while true do
  local reply = {ARGV[first_request], now, nil, nil, nil, nil, nil, nil}

  for _, counter in ipairs(counters) do
    counter:read(now)
  end
  for _, log in ipairs(logs) do
    log:read(callers_clock)
  end
  local weighted, ids = false, nil
  if has_logs then
    weighted = call('EXISTS', KEYS[first_companion], KEYS[#KEYS]) > 0
  end
  if look then
    ids = {}
    for r = first_request, #ARGV, 2 do ids[#ids + 1] = ARGV[r] end
  end
  for _, log in ipairs(logs) do
    log:read_companion(weighted, ids, resent)
  end
  for _, log in ipairs(logs) do
    log:settle(now, callers_clock, weighted, total, ids)
  end
  for _, ceiling in ipairs(ceilings) do
    ceiling:state(reply)
  end

  -- what is charged: scores and ids; fields of the companions; units beyond one an entry
  local stamp, adds, weights, extra, lease_end, costs_by_id
  for r = first_request, #ARGV, 2 do
    local id, known = ARGV[r], nil
    if many then
      origin, cost, held = 'f', 1, nil
      if ARGV[r + 1] ~= 'f1' then
        origin, cost, held = string.match(ARGV[r + 1], REQUEST)
        cost, held = tonumber(cost), tonumber(held)
      end
    end
    if look then
      known = costs_by_id and costs_by_id[id]
      for _, log in ipairs(logs) do
        if not known and log.scores and log.scores[(r - first_request) / 2 + 1] then
          known = tonumber(weighted and call('HGET', log.companion, id) or 1)
        end
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
    elseif cost == 0 then
      verdict = 1
    elseif admitted then
      verdict = 1
      for _, ceiling in ipairs(ceilings) do
        ceiling:take(cost)
      end
      if has_logs and (not has_record or origin == 'c') then
        stamp = stamp or string.format('%d', now)
        adds = adds or {}
        adds[#adds + 1] = stamp
        adds[#adds + 1] = id
        if many then
          costs_by_id = costs_by_id or {}
          costs_by_id[id] = cost
        end
        if held then
          local date = string.format('%d', now + held)
          adds[#adds - 1] = date
          lease_end = math.max(lease_end or 0, now + held)
        end
        if cost ~= 1 or held then
          weights, extra = weights or {}, (extra or 0) + cost - 1
          weights[#weights + 1] = id
          weights[#weights + 1] = string.format('%d', cost)
        end
        if held then
          weights[#weights + 1] = '\tl' .. id
          weights[#weights + 1] = string.format('%d', held)
        end
      end
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

  -- The first log's answer proves that a fresh id is new; nothing was written before it.
  local is_new, added = true, false
  for _, log in ipairs(logs) do
    if log.is_first and adds and not look then
      is_new, added = call('ZADD', log.key, 'NX', unpack(adds)) > 0, true
    end
  end
  if is_new then
    for _, counter in ipairs(counters) do
      counter:write(now)
    end
    if adds then
      for _, log in ipairs(logs) do
        log:write(now, adds, weights, extra, lease_end, weighted, added)
      end
    end
    return reply
  end
  look, resent = true, true -- the call had run already: look at what it left
end
