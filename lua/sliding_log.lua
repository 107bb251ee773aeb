-- Twin of algorithm/sliding_log.rs. A sorted set: member = charge id, score = microseconds.
-- Its companion, a hash, is there only while some entry weighs more than one unit or is a lease:
-- '\tsum' = the units beyond one an entry, id = that entry's units, '\tl' .. id = a lease's length,
-- '\tlease' = when the last lease ends, so long that the hash is never kept as a list, in which each
-- new entry would have to be looked for.
-- ARGV: limit, window (us).

--@ section read
local L_i_, W_i_ = A[_a_] + 0, A[_a_ + 1] + 0
local n_i_ = call('ZCARD', K[_i_])
-- what the keys live beyond their window; another clock than the server's may run apart from it
local slack_i_ = W_i_ / 32 + 2000
if exact then slack_i_ = slack_i_ + W_i_ + 60000000 end

--@ section weigh
local heavy, ids = call('EXISTS', <<logs K[_x_]>>) > 0, nil
if look then
  ids = {}
  for r = _r_, #A, 2 do ids[#ids + 1] = A[r] end
end
--@ logs weigh_one

--@ section weigh_one
local x_i_, lease_i_, marks_i_, marked_i_ = 0, 0, nil, false
local bare_i_ = true -- without a companion, which another log may have
if heavy then
  local sums = call('HMGET', K[_x_], '\tsum', '\tlease')
  x_i_, lease_i_, bare_i_ = tonumber(sums[1] or 0), tonumber(sums[2] or 0), not sums[1]
end
if look and (resent or _i_ == _first_) then
  marks_i_ = call('ZMSCORE', K[_i_], unpack(ids))
  for j = 1, #ids do marked_i_ = marked_i_ or marks_i_[j] end
end
-- entries that expired but are there still; the oldest that counts; the newest; those dated after
-- now, as {date, units}; whether there may be more of them, up to which instant
local late_i_, first_i_, last_i_, ahead_i_, near_i_, due_i_ = 0, nil, nil, nil, nil, nil

--@ section settle
if n_i_ == 0 then
  due_i_, x_i_ = true, 0
  if heavy then call('UNLINK', K[_x_]) end
else
  local unfit = exact or n_i_ + x_i_ + total > L_i_
  if not unfit then due_i_ = call('PTTL', K[_i_]) * 1000 < W_i_ + slack_i_ / 2 end
  if unfit or due_i_ or marked_i_ then
    local cut = now - W_i_
    --@ own forget
    --@ own trim
    local redate = true
    --@ own top
  end
end
local u_i_ = n_i_ - late_i_ + x_i_

--@ section forget
-- Expired entries whose ids come again go first, so that these are charged anew.
for j = 1, marked_i_ and #ids or 0 do
  local mark = marks_i_[j]
  if mark and tonumber(mark) <= cut then
    marks_i_[j] = false
    if call('ZREM', K[_i_], ids[j]) == 1 then
      n_i_ = n_i_ - 1
      local cost = heavy and call('HGET', K[_x_], ids[j])
      if cost then
        x_i_ = call('HINCRBY', K[_x_], '\tsum', string.format('%d', 1 - cost))
        call('HDEL', K[_x_], ids[j], '\tl' .. ids[j])
      end
    end
  end
end

--@ section trim
-- Takes off what has expired, a bounded part a call. Of units the rest is known by its number; of
-- weights the rest counts until a later call takes it off.
first_i_ = tonumber(call('ZRANGE', K[_i_], '0', '0', 'WITHSCORES')[2])
if not first_i_ then
  due_i_ = true
elseif first_i_ <= cut then
  first_i_ = nil
  late_i_ = call('ZCOUNT', K[_i_], '-inf', string.format('%d', cut))
  if late_i_ == n_i_ then
    call('UNLINK', K[_i_], K[_x_])
    n_i_, x_i_, late_i_, due_i_ = 0, 0, 0, true
  elseif not heavy then
    local m = math.min(late_i_, 1000)
    call('ZREMRANGEBYRANK', K[_i_], '0', string.format('%d', m - 1))
    n_i_, late_i_ = n_i_ - m, late_i_ - m
  else
    local chunks = 16
    while late_i_ > 0 and chunks > 0 do
      local m = math.min(late_i_, 1000)
      local to = string.format('%d', m - 1)
      local gone = call('ZRANGE', K[_i_], '0', to)
      local costs = call('HMGET', K[_x_], unpack(gone))
      local freed, fields = 0, {}
      for j = 1, m do
        if costs[j] then
          freed = freed + costs[j] - 1
          fields[#fields + 1] = gone[j]
          fields[#fields + 1] = '\tl' .. gone[j]
        end
      end
      call('ZREMRANGEBYRANK', K[_i_], '0', to)
      if #fields > 0 then
        call('HDEL', K[_x_], unpack(fields))
        x_i_ = call('HINCRBY', K[_x_], '\tsum', string.format('%d', -freed))
      end
      n_i_, late_i_, chunks = n_i_ - m, late_i_ - m, chunks - 1
    end
    late_i_ = 0
    if x_i_ == 0 and call('HLEN', K[_x_]) <= 2 then
      call('UNLINK', K[_x_])
      bare_i_ = true
    end
  end
end

--@ section top
-- The newest entry. When it is dated so far after now that a clock must have been ahead, or a lease
-- been taken, those that are: a lease comes back to its length after now, the others to now.
last_i_ = tonumber(call('ZRANGE', K[_i_], '-1', '-1', 'WITHSCORES')[2])
if last_i_ and last_i_ > now then near_i_ = now + math.min(math.floor(W_i_ / 10), 100000) end
if near_i_ and last_i_ > near_i_ then
  local from = near_i_
  local list = call('ZRANGEBYSCORE', K[_i_], string.format('(%d', from), '+inf', 'WITHSCORES', 'LIMIT', '0', '1000')
  local fields, known = {}, nil
  for j = 1, #list, 2 do
    fields[j], fields[j + 1] = list[j], '\tl' .. list[j]
  end
  known = heavy and call('HMGET', K[_x_], unpack(fields)) or {}
  last_i_ = now
  for j = 1, #list, 2 do
    local date, hold = tonumber(list[j + 1]), known[j + 1] or 0
    if date - hold > from then
      date = now + hold
      if redate then
        call('ZADD', K[_i_], 'XX', string.format('%d', date), list[j])
        call('UNLINK', K[1] .. ':n')
      end
      if first_i_ then first_i_ = math.min(first_i_, date) end
    end
    last_i_ = math.max(last_i_, date)
    if date > from or not redate then
      ahead_i_ = ahead_i_ or {}
      ahead_i_[#ahead_i_ + 1] = {date, tonumber(known[j] or 1)}
    end
  end
  local near = call('ZREVRANGEBYSCORE', K[_i_], string.format('%d', from), '-inf', 'WITHSCORES', 'LIMIT', '0', '1')
  last_i_ = math.max(last_i_, tonumber(near[2] or 0))
end

--@ section near
-- What is dated after now by so little that it may be another caller's clock.
local list = call('ZRANGEBYSCORE', K[_i_], string.format('(%d', now), string.format('%d', near_i_), 'WITHSCORES', 'LIMIT', '0', '1000')
near_i_, ahead_i_ = nil, ahead_i_ or {}
local near = {}
for j = 1, #list, 2 do near[#near + 1] = list[j] end
local costs = heavy and near[1] and call('HMGET', K[_x_], unpack(near)) or {}
for j = 1, #near do
  ahead_i_[#ahead_i_ + 1] = {tonumber(list[2 * j]), tonumber(costs[j] or 1)}
end

--@ section survey
-- What settling would find, without doing it.
if n_i_ == 0 then
  x_i_ = 0
else
  local cut = now - W_i_
  first_i_ = tonumber(call('ZRANGE', K[_i_], '0', '0', 'WITHSCORES')[2])
  if first_i_ <= cut then
    first_i_ = nil
    late_i_ = call('ZCOUNT', K[_i_], '-inf', string.format('%d', cut))
    if late_i_ == n_i_ then x_i_ = 0 end
    for from = 0, heavy and late_i_ < n_i_ and math.min(late_i_, 16000) - 1 or -1, 1000 do
      local to = math.min(late_i_, from + 1000) - 1
      local gone = call('ZRANGE', K[_i_], string.format('%d', from), string.format('%d', to))
      local costs = call('HMGET', K[_x_], unpack(gone))
      for j = 1, #gone do
        if costs[j] then x_i_ = x_i_ - costs[j] + 1 end
      end
    end
  end
  for j = 1, #ids do
    if marks_i_[j] and tonumber(marks_i_[j]) <= cut then marks_i_[j] = false end
  end
  if late_i_ < n_i_ then
    local redate = false
    --@ own top
  end
end
local u_i_ = n_i_ - late_i_ + x_i_

--@ section find
local nth = (r - _r_) / 2 + 1
--@ logs found

--@ section found
if not seen and marks_i_ and marks_i_[nth] then
  seen = tonumber(heavy and call('HGET', K[_x_], id) or 1)
end

--@ section state
out[_s_] = u_i_

--@ section try
local ok_i_ = u_i_ + cost <= L_i_

--@ section take
u_i_ = u_i_ + cost

--@ section refuse
local wait = 0
if not ok_i_ and cost <= L_i_ then
  if near_i_ then
    --@ own near
  end
  local need, there = u_i_ + cost - L_i_, n_i_ - late_i_ - (ahead_i_ and #ahead_i_ or 0)
  wait = nil
  if heavy or need > there then
    --@ own walk
  elseif need == 1 and first_i_ then
    wait = first_i_ + W_i_ - now
  else
    local rank = string.format('%d', late_i_ + need - 1)
    local score = tonumber(call('ZRANGE', K[_i_], rank, rank, 'WITHSCORES')[2])
    wait = math.min(score, now) + W_i_ - now
  end
end
out[#out + 1] = wait

--@ section walk
-- What is dated after now, and what this call itself has charged, frees its units last.
local rest, freed, rank = {}, u_i_, late_i_
for j = 1, ahead_i_ and #ahead_i_ or 0 do rest[#rest + 1] = ahead_i_[j] end
for j = 1, adds and #adds or 0, 2 do
  rest[#rest + 1] = {tonumber(adds[j]), names[adds[j + 1]]}
end
for j = 1, #rest do freed = freed - rest[j][2] end
if need > freed then
  table.sort(rest, function(a, b) return a[1] < b[1] end)
  for j = 1, #rest do
    freed = freed + rest[j][2]
    wait = rest[j][1] + W_i_ - now
    if freed >= need then break end
  end
else
  -- from the oldest on, until enough is free; beyond 1,024 entries a bound: each frees a unit
  freed = 0
  while not wait do
    local to = math.min(rank + 64, late_i_ + there)
    if rank >= late_i_ + 1024 then
      rank = math.min(rank + need - freed, late_i_ + there) - 1
      to, freed = rank + 1, need
    end
    local list = call('ZRANGE', K[_i_], string.format('%d', rank), string.format('%d', to - 1), 'WITHSCORES')
    local members = {}
    for j = 1, #list, 2 do members[#members + 1] = list[j] end
    local costs = call('HMGET', K[_x_], unpack(members))
    for j = 1, #members do
      freed = freed + (costs[j] or 1)
      if freed >= need and not wait then
        wait = math.min(tonumber(list[2 * j]), now) + W_i_ - now
      end
    end
    if to == late_i_ + there then wait = wait or W_i_ end
    rank = to
  end
end

--@ section report
if not last_i_ and n_i_ > late_i_ and (lease_i_ > now or verdict ~= 1 or cost == 0) then
  last_i_ = tonumber(call('ZRANGE', K[_i_], '-1', '-1', 'WITHSCORES')[2])
  if not heavy and last_i_ > now + math.min(math.floor(W_i_ / 10), 100000) then last_i_ = now end
end
out[_s_ + 1] = last_i_ or -1

--@ section keep
if _kept_ then
  stamp = stamp or string.format('%d', now)
  local score = stamp
  adds = adds or {}
  if held then
    score = string.format('%d', now + held)
    lease = math.max(lease or 0, now + held)
  end
  adds[#adds + 1] = score
  adds[#adds + 1] = id
  if many then
    names = names or {}
    names[id] = cost
  end
  if cost ~= 1 or held then
    weights, extra = weights or {}, (extra or 0) + cost - 1
    weights[#weights + 1] = id
    weights[#weights + 1] = string.format('%d', cost)
    if held then
      weights[#weights + 1] = '\tl' .. id
      weights[#weights + 1] = string.format('%d', held)
    end
  end
end

--@ section claim
-- The first log's answer proves that a fresh id is new; nothing was written before it.
clear = look or not adds or call('ZADD', K[_first_], 'NX', unpack(adds)) > 0

--@ section write
if adds then
  if look or _i_ ~= _first_ then call('ZADD', K[_i_], 'NX', unpack(adds)) end
  if due_i_ == nil then due_i_ = call('PTTL', K[_i_]) * 1000 < W_i_ + slack_i_ / 2 end
  if weights then
    call('HSET', K[_x_], '\tsum', string.format('%d', x_i_ + extra),
      '\tlease', string.format('%070d', math.max(lease or 0, lease_i_)), unpack(weights))
  end
  if due_i_ or weights and bare_i_ then
    local expiry = string.format('%d', math.ceil((W_i_ + slack_i_) / 1000))
    if due_i_ then call('PEXPIRE', K[_i_], expiry) end
    if weights or heavy then call('PEXPIRE', K[_x_], expiry) end
  end
end

--@ section trace
local cost_i_
if marks_i_[1] then
  local entry = call('HMGET', K[_x_], id, '\tl' .. id)
  cost_i_ = tonumber(entry[1] or 1)
  had, at = had or cost_i_, at or math.min(marks_i_[1] - (entry[2] or 0), now)
end

--@ section give
-- a record of ids holds what no ceiling could give back: sent again, it is still known
local less_i_ = _counted_ and units or given
if cost_i_ and less_i_ > 0 then
  local less = math.min(less_i_, cost_i_)
  if _counted_ then given = math.max(given, less) end
  call('UNLINK', K[1] .. ':n')
  if less == cost_i_ then
    call('ZREM', K[_i_], id)
    call('HDEL', K[_x_], id, '\tl' .. id)
    less = cost_i_ - 1
  elseif cost_i_ - less == 1 and call('HEXISTS', K[_x_], '\tl' .. id) == 0 then
    call('HDEL', K[_x_], id)
  else
    call('HSET', K[_x_], id, string.format('%d', cost_i_ - less))
  end
  if less > 0 and call('HINCRBY', K[_x_], '\tsum', string.format('%d', -less)) == 0
    and call('HLEN', K[_x_]) <= 2 then
    call('UNLINK', K[_x_])
  end
end

--@ section replay
if tonumber(at) > now - W_i_ and call('ZADD', K[_i_], 'NX', at, id) == 1 then
  back = 1
  if cost ~= 1 or held ~= '' then
    call('HSET', K[_x_], id, A[r + 1])
    if held ~= '' then
      local lease = tonumber(call('HGET', K[_x_], '\tlease') or 0)
      call('HSET', K[_x_], '\tl' .. id, held, '\tlease', string.format('%d', math.max(lease, at)))
    end
    call('HINCRBY', K[_x_], '\tsum', string.format('%d', cost - 1))
  end
end

--@ section extend
local keep_i_ = string.format('%d', math.ceil((W_i_ + slack_i_) / 1000))
if call('PTTL', K[_i_]) * 1000 < W_i_ + slack_i_ / 2 then call('PEXPIRE', K[_i_], keep_i_) end
if call('PTTL', K[_x_]) * 1000 < W_i_ + slack_i_ / 2 then call('PEXPIRE', K[_x_], keep_i_) end
