-- Twin of algorithm/sliding_log.rs. A sorted set: member = charge id, score = microseconds.
-- Its companion, a hash, is there only while some entry weighs more than one unit or is a lease:
-- '\tsum' = the units beyond one an entry, id = that entry's units, '\tl' .. id = a lease's length.
-- ARGV: limit, window (us).

--@ section sprint
-- The common case by the shortest way: one fresh unit, by the server's clock, against logs of
-- units alone. Whatever else turns up is left to the long way, before anything is charged.
if A[_r_ + 1] == 'f1' and A[1] == '' and not A[_r_ + 2] then
  --@ logs glance
  local t, now
  if not (<<n_i_ < L_i_| and >>) then
    --@ once recall
  end
  if call('EXISTS', <<logs K[_x_]>>) == 0 then
    t = t or call('TIME')
    local plain, id = true, A[_r_]
    if not (<<n_i_ < L_i_| and >>) then
      now = t[1] * 1000000 + t[2]
      --@ logs crowd
    end
    if not plain then
      -- the long way
    elseif <<n_i_ < L_i_| and >> then
      if <<n_i_ > 0| and >> and call('PTTL', K[_n_]) * 64000 >= A[_r_ - 1] * 65 + 64000 then
        local stamp = t[2]
        if #stamp < 6 then stamp = string.sub('00000', #stamp) .. stamp end
        stamp = t[1] .. stamp
        if call('ZADD', K[_first_], 'NX', stamp, id) == 1 then
          --@ logs join
          if <<n_i_ + 1 == L_i_| or >> then
            --@ once note
          end
          return {id, stamp, <<n_i_>>}
        end
      end
    else
      --@ logs turned_away
      if plain then return {id, now, <<n_i_, last_i_>>, 0, <<wait_i_>>} end
    end
  end
end

--@ section glance
local n_i_, L_i_ = call('ZCARD', K[_i_]), A[_a_] + 0

--@ section recall
-- What the charge that filled a log noted: while no log has changed since, it answers all, and
-- spares the scores, which are dear to read.
local note = call('HGET', K[1] .. ':n', K[_n_])
if note then
  t = call('TIME')
  now = t[1] * 1000000 + t[2]
  local last, <<m_i_, first_i_>> = struct.unpack('<d<<dd|>>', note)
  if last <= now and <<m_i_ == n_i_ and n_i_ <= L_i_ and first_i_ > now - A[_a_ + 1]| and >> then
    return {A[_r_], now, <<n_i_, last>>, 0, <<n_i_ < L_i_ and 0 or first_i_ + A[_a_ + 1] - now>>}
  end
end

--@ section note
--@ logs oldest
call('HSET', K[1] .. ':n', K[_n_], struct.pack('<d<<dd|>>', stamp, <<n_i_ + 1, first_i_>>))
call('PEXPIRE', K[1] .. ':n', string.format('%d', math.max(<<A[_a_ + 1]>>) / 1000 + 1))

--@ section oldest
local first_i_ = call('ZRANGE', K[_i_], '0', '0', 'WITHSCORES')[2]

--@ section crowd
local cut_i_, wait_i_ = now - A[_a_ + 1], 0
if n_i_ >= L_i_ then
  if n_i_ <= 1000 then
    n_i_ = n_i_ - call('ZREMRANGEBYSCORE', K[_i_], '-inf', string.format('%d', cut_i_))
  else
    local gone = math.min(call('ZCOUNT', K[_i_], '-inf', string.format('%d', cut_i_)), 1000)
    if gone > 0 then n_i_ = n_i_ - call('ZREMRANGEBYRANK', K[_i_], '0', string.format('%d', gone - 1)) end
  end
  plain = plain and n_i_ > 0 and n_i_ <= L_i_
end

--@ section join
if _i_ > _first_ then call('ZADD', K[_i_], stamp, id) end

--@ section turned_away
local wait_i_, last_i_ = 0, -1
if n_i_ == L_i_ then
  wait_i_ = call('ZRANGE', K[_i_], '0', '0', 'WITHSCORES')[2] - (now - A[_a_ + 1])
  if wait_i_ <= 0 then plain = false end
end
if n_i_ > 0 then last_i_ = call('ZRANGE', K[_i_], '-1', '-1', 'WITHSCORES')[2] + 0 end
if last_i_ > now then plain = false end

--@ section read
local L_i_, W_i_ = tonumber(A[_a_]), tonumber(A[_a_ + 1])
local n_i_ = call('ZCARD', K[_i_])
-- what the keys live beyond their window; another clock than the server's may run apart from it
local slack_i_ = W_i_ / 32 + 2000
if exact then slack_i_ = slack_i_ + W_i_ + 60000000 end

--@ section weigh
local heavy = call('EXISTS', <<logs K[_x_]>>) > 0
local ids
if look then
  ids = {}
  for r = _r_, #A, 2 do ids[#ids + 1] = A[r] end
end
--@ logs weigh_one

--@ section weigh_one
local x_i_ = heavy and tonumber(call('HGET', K[_x_], '\tsum') or 0) or 0
local marks_i_ = look and call('ZMSCORE', K[_i_], unpack(ids))
local late_i_, first_i_, last_i_, due_i_ = 0, nil, nil, nil

--@ section settle
if n_i_ == 0 then
  due_i_, x_i_ = true, 0
  if heavy then call('UNLINK', K[_x_]) end
else
  local unfit = exact or n_i_ + x_i_ + total > L_i_
  if not unfit then due_i_ = call('PTTL', K[_i_]) * 1000 < W_i_ + slack_i_ / 2 end
  if unfit or due_i_ or look then
    --@ own trim
    --@ own redate
  end
end
local u_i_, pending_i_ = n_i_ - late_i_ + x_i_, 0

--@ section trim
-- Takes off what has expired: a bounded part a call, the rest is known by its number. Expired
-- entries of an id that comes again go first, so that it is charged anew.
local cut = now - W_i_
if look then
  for j = 1, #ids do
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
end
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
      local gone = call('ZRANGE', K[_i_], '0', string.format('%d', m - 1))
      local costs = call('HMGET', K[_x_], unpack(gone))
      local freed, fields = 0, {}
      for j = 1, m do
        if costs[j] then
          freed = freed + costs[j] - 1
          fields[#fields + 1] = gone[j]
          fields[#fields + 1] = '\tl' .. gone[j]
        end
      end
      call('ZREMRANGEBYRANK', K[_i_], '0', string.format('%d', m - 1))
      if #fields > 0 then
        call('HDEL', K[_x_], unpack(fields))
        x_i_ = call('HINCRBY', K[_x_], '\tsum', string.format('%d', -freed))
      end
      n_i_, late_i_, chunks = n_i_ - m, late_i_ - m, chunks - 1
    end
    late_i_ = 0 -- what is left counts until a later call takes it off
    if x_i_ == 0 and call('HLEN', K[_x_]) <= 1 then call('UNLINK', K[_x_]) end
  end
end

--@ section redate
-- An entry from a clock that was ahead comes back to now; a lease to no more than its length ahead.
last_i_ = tonumber(call('ZRANGE', K[_i_], '-1', '-1', 'WITHSCORES')[2])
if last_i_ and last_i_ > now then
  local ahead = call('ZRANGEBYSCORE', K[_i_], string.format('(%d', now), '+inf', 'WITHSCORES', 'LIMIT', '0', '1000')
  for j = 1, #ahead, 2 do
    local length = heavy and call('HGET', K[_x_], '\tl' .. ahead[j])
    local most = now + (length or 0)
    if tonumber(ahead[j + 1]) > most then
      call('ZADD', K[_i_], 'XX', string.format('%d', most), ahead[j])
    end
  end
  last_i_ = tonumber(call('ZRANGE', K[_i_], '-1', '-1', 'WITHSCORES')[2])
  first_i_ = nil
  call('UNLINK', K[1] .. ':n')
end

--@ section survey
-- What trimming and redating would find, without doing it.
if n_i_ == 0 then
  x_i_ = 0
else
  local cut = now - W_i_
  first_i_ = tonumber(call('ZRANGE', K[_i_], '0', '0', 'WITHSCORES')[2])
  if first_i_ <= cut then
    first_i_ = nil
    late_i_ = call('ZCOUNT', K[_i_], '-inf', string.format('%d', cut))
    if late_i_ == n_i_ then
      x_i_ = 0
    elseif heavy then
      for from = 0, math.min(late_i_, 16000) - 1, 1000 do
        local to = math.min(late_i_, from + 1000) - 1
        local gone = call('ZRANGE', K[_i_], string.format('%d', from), string.format('%d', to))
        local costs = call('HMGET', K[_x_], unpack(gone))
        for j = 1, #gone do
          if costs[j] then x_i_ = x_i_ - costs[j] + 1 end
        end
      end
    end
  end
  if late_i_ < n_i_ then
    local top = call('ZRANGE', K[_i_], '-1', '-1', 'WITHSCORES')
    last_i_ = tonumber(top[2])
    if last_i_ > now then
      local length = heavy and call('HGET', K[_x_], '\tl' .. top[1])
      last_i_ = math.min(last_i_, now + (length or 0))
      if first_i_ then first_i_ = math.min(first_i_, last_i_) end
    end
  end
  for j = 1, #ids do
    if marks_i_[j] and tonumber(marks_i_[j]) <= cut then marks_i_[j] = false end
  end
end
local u_i_, pending_i_ = n_i_ - late_i_ + x_i_, 0

--@ section find
local nth = (r - _r_) / 2 + 1
--@ logs found

--@ section found
seen = seen or marks_i_[nth]

--@ section state
out[_s_] = u_i_

--@ section try
local ok_i_ = u_i_ + cost <= L_i_

--@ section take
u_i_, pending_i_ = u_i_ + cost, pending_i_ + cost

--@ section refuse
local wait = 0
if not ok_i_ and cost <= L_i_ then
  local need = u_i_ + cost - L_i_
  wait = nil
  if heavy then
    --@ own walk
  elseif need == 1 and first_i_ then
    wait = first_i_ + W_i_ - now
  elseif need <= n_i_ - late_i_ then
    local rank = string.format('%d', late_i_ + need - 1)
    local score = tonumber(call('ZRANGE', K[_i_], rank, rank, 'WITHSCORES')[2])
    wait = math.min(score, now) + W_i_ - now
  else
    wait = W_i_
  end
end
out[#out + 1] = wait

--@ section report
if not last_i_ and n_i_ > late_i_ and (heavy or verdict ~= 1 or cost == 0) then
  last_i_ = tonumber(call('ZRANGE', K[_i_], '-1', '-1', 'WITHSCORES')[2])
end
out[_s_ + 1] = last_i_ or -1

--@ section walk
-- From the oldest on, until enough is free. Beyond 1,024 entries: each frees at least one unit.
local rank, freed, pending = late_i_, 0, pending_i_
while not wait do
  local to = rank + 63
  if rank - late_i_ >= 1024 then
    rank = math.min(rank + need - freed, n_i_) - 1
    to = rank
    freed = need
  end
  local list = call('ZRANGE', K[_i_], string.format('%d', rank), string.format('%d', to), 'WITHSCORES')
  local members = {}
  for j = 1, #list, 2 do members[#members + 1] = list[j] end
  local costs = #members > 0 and call('HMGET', K[_x_], unpack(members))
  for j = 1, #members do
    local score = tonumber(list[2 * j])
    if score > now then
      freed, pending = freed + pending, 0
      if freed >= need then
        wait = W_i_
        break
      end
    end
    freed = freed + (costs[j] or 1)
    if freed >= need then
      wait = score + W_i_ - now
      break
    end
  end
  if #members < 64 and not wait then wait = W_i_ end
  rank = rank + 64
end

--@ section keep
stamp = stamp or string.format('%d', now)
adds = adds or {}
adds[#adds + 1] = held ~= '' and string.format('%d', now + held) or stamp
adds[#adds + 1] = id
if cost ~= 1 or held ~= '' then
  weights, extra = weights or {}, (extra or 0) + cost - 1
  weights[#weights + 1] = id
  weights[#weights + 1] = string.format('%d', cost)
  if held ~= '' then
    weights[#weights + 1] = '\tl' .. id
    weights[#weights + 1] = held
  end
end
names = names or {}
names[id] = true

--@ section claim
-- The first log's answer proves that a fresh id is new; nothing was written before it.
clear = look or not adds or call('ZADD', K[_first_], 'NX', unpack(adds)) > 0

--@ section write
if adds then
  if look or _i_ ~= _first_ then call('ZADD', K[_i_], 'NX', unpack(adds)) end
  if weights then
    call('HSET', K[_x_], unpack(weights))
    if extra > 0 then call('HINCRBY', K[_x_], '\tsum', string.format('%d', extra)) end
  end
  if due_i_ == nil then due_i_ = call('PTTL', K[_i_]) * 1000 < W_i_ + slack_i_ / 2 end
  local expiry = string.format('%d', math.ceil((W_i_ + slack_i_) / 1000))
  if due_i_ then call('PEXPIRE', K[_i_], expiry) end
  if weights or due_i_ and heavy then call('PEXPIRE', K[_x_], expiry) end
end

--@ section trace
local mark_i_, cost_i_ = tonumber(call('ZSCORE', K[_i_], id)), nil
if mark_i_ and mark_i_ > now - tonumber(A[_a_ + 1]) then
  local entry = call('HMGET', K[_x_], id, '\tl' .. id)
  cost_i_ = tonumber(entry[1] or 1)
  had, at = had or cost_i_, at or mark_i_ - (entry[2] or 0)
end

--@ section give
if cost_i_ then
  local less = math.min(units, cost_i_)
  given = math.max(given, less)
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
    and call('HLEN', K[_x_]) <= 1 then
    call('UNLINK', K[_x_])
  end
end

--@ section replay
if tonumber(at) > now - W_i_ and call('ZADD', K[_i_], 'NX', at, id) == 1 then
  back = 1
  if cost ~= 1 or held ~= '' then
    call('HSET', K[_x_], id, A[r + 1])
    if held ~= '' then call('HSET', K[_x_], '\tl' .. id, held) end
    call('HINCRBY', K[_x_], '\tsum', string.format('%d', cost - 1))
  end
end

--@ section extend
local keep_i_ = string.format('%d', math.ceil((W_i_ + slack_i_) / 1000))
if call('PTTL', K[_i_]) * 1000 < W_i_ + slack_i_ / 2 then call('PEXPIRE', K[_i_], keep_i_) end
if call('PTTL', K[_x_]) * 1000 < W_i_ + slack_i_ / 2 then call('PEXPIRE', K[_x_], keep_i_) end
