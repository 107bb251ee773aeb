-- Twin of algorithm/sliding_log.rs. A sorted set: member = charge id, score = microseconds.
-- Its companion, a hash, is there only while some entry weighs more than one unit or is a lease:
-- '\tsum' = the units beyond one an entry, id = that entry's units, '\tl' .. id = a lease's length,
-- '\tlease' = when the last lease ends, so long that the hash is never kept as a list, in which each
-- new entry would have to be looked for.
-- ARGV: limit, window (us).
local sliding_log = {}

function sliding_log:read(callers_clock)
  self.limit, self.window = ARGV[self.args] + 0, ARGV[self.args + 1] + 0
  self.entries = call('ZCARD', self.key)
  -- what the keys live beyond their window; another clock than the server's may run apart from it
  self.slack = self.window / 32 + 2000
  if callers_clock then self.slack = self.slack + self.window + 60000000 end
end

-- What the companion holds, and the scores of the ids that are asked for: by a call that may have
-- run before in every log, else in the first, which every charge goes through.
function sliding_log:read_companion(weighted, ids, resent)
  self.extra, self.lease_end, self.has_companion = 0, 0, false
  if weighted then
    local sums = call('HMGET', self.companion, '\tsum', '\tlease')
    self.extra, self.lease_end = tonumber(sums[1] or 0), tonumber(sums[2] or 0)
    self.has_companion = sums[1] and true
  end
  self.scores, self.found = nil, false
  if ids and (resent or self.is_first) then
    self.scores = call('ZMSCORE', self.key, unpack(ids))
    for j = 1, #ids do self.found = self.found or self.scores[j] end
  end
  -- entries that expired but are there still; the oldest that counts; the newest
  self.expired, self.oldest, self.newest = 0, nil, nil
  -- entries dated after now, as {date, units}; up to which instant there may be more of them
  self.ahead, self.skew_end = nil, nil
  self.expiry_due = nil
end

-- Brings the log to now: when it seems full, when its expiry is due anyway, when an id is there.
function sliding_log:settle(now, callers_clock, weighted, total, ids)
  if self.entries == 0 then
    self.expiry_due, self.extra = true, 0
    if weighted then call('UNLINK', self.companion) end
  else
    local due = callers_clock or self.entries + self.extra + total > self.limit
    if not due then
      self.expiry_due = call('PTTL', self.key) * 1000 < self.window + self.slack / 2
    end
    if due or self.expiry_due or self.found then
      local cutoff, redate = now - self.window, true
      self:drop_expired_ids(cutoff, weighted, ids)
      self:trim(cutoff, weighted)
      self:read_newest(now, weighted, redate)
    end
  end
  self.used = self.entries - self.expired + self.extra
end

-- Expired entries whose ids come again go first, so that these are charged anew.
function sliding_log:drop_expired_ids(cutoff, weighted, ids)
  for j = 1, self.found and #ids or 0 do
    local score = self.scores[j]
    if score and tonumber(score) <= cutoff then
      self.scores[j] = false
      if call('ZREM', self.key, ids[j]) == 1 then
        self.entries = self.entries - 1
        local cost = weighted and call('HGET', self.companion, ids[j])
        if cost then
          self.extra = call('HINCRBY', self.companion, '\tsum', string.format('%d', 1 - cost))
          call('HDEL', self.companion, ids[j], '\tl' .. ids[j])
        end
      end
    end
  end
end

-- Takes off what has expired, a bounded part a call. Of units the rest is known by its number; of
-- weights the rest counts until a later call takes it off.
function sliding_log:trim(cutoff, weighted)
  self.oldest = tonumber(call('ZRANGE', self.key, '0', '0', 'WITHSCORES')[2])
  if not self.oldest then
    self.expiry_due = true
  elseif self.oldest <= cutoff then
    self.oldest = nil
    self.expired = call('ZCOUNT', self.key, '-inf', string.format('%d', cutoff))
    if self.expired == self.entries then
      call('UNLINK', self.key, self.companion)
      self.entries, self.extra, self.expired, self.expiry_due = 0, 0, 0, true
    elseif not weighted then
      local part = math.min(self.expired, 1000)
      call('ZREMRANGEBYRANK', self.key, '0', string.format('%d', part - 1))
      self.entries, self.expired = self.entries - part, self.expired - part
    else
      self:trim_weighted()
    end
  end
end

function sliding_log:trim_weighted()
  local chunks = 16
  while self.expired > 0 and chunks > 0 do
    local part = math.min(self.expired, 1000)
    local last = string.format('%d', part - 1)
    local gone = call('ZRANGE', self.key, '0', last)
    local costs = call('HMGET', self.companion, unpack(gone))
    local freed, fields = 0, {}
    for j = 1, part do
      if costs[j] then
        freed = freed + costs[j] - 1
        fields[#fields + 1] = gone[j]
        fields[#fields + 1] = '\tl' .. gone[j]
      end
    end
    call('ZREMRANGEBYRANK', self.key, '0', last)
    if #fields > 0 then
      call('HDEL', self.companion, unpack(fields))
      self.extra = call('HINCRBY', self.companion, '\tsum', string.format('%d', -freed))
    end
    self.entries, self.expired = self.entries - part, self.expired - part
    chunks = chunks - 1
  end
  self.expired = 0
  if self.extra == 0 and call('HLEN', self.companion) <= 2 then
    call('UNLINK', self.companion)
    self.has_companion = false
  end
end

-- The newest entry. When it is dated so far after now that a clock must have been ahead, or a lease
-- been taken, those that are: a lease comes back to its length after now, the others to now.
function sliding_log:read_newest(now, weighted, redate)
  self.newest = tonumber(call('ZRANGE', self.key, '-1', '-1', 'WITHSCORES')[2])
  if self.newest and self.newest > now then
    self.skew_end = now + math.min(math.floor(self.window / 10), 100000)
  end
  if self.skew_end and self.newest > self.skew_end then
    self:read_ahead(now, weighted, redate)
  end
end

function sliding_log:read_ahead(now, weighted, redate)
  local from, fields = string.format('%d', self.skew_end), {}
  local list = call('ZRANGEBYSCORE', self.key, '(' .. from, '+inf', 'WITHSCORES', 'LIMIT', '0', '1000')
  for j = 1, #list, 2 do
    fields[j], fields[j + 1] = list[j], '\tl' .. list[j]
  end
  local known = weighted and call('HMGET', self.companion, unpack(fields)) or {}
  self.newest = now
  for j = 1, #list, 2 do
    local date, lease = tonumber(list[j + 1]), known[j + 1] or 0
    if date - lease > self.skew_end then
      date = now + lease
      if redate then
        call('ZADD', self.key, 'XX', string.format('%d', date), list[j])
        call('UNLINK', KEYS[1] .. ':n')
      end
      if self.oldest then self.oldest = math.min(self.oldest, date) end
    end
    self.newest = math.max(self.newest, date)
    if date > self.skew_end or not redate then
      self.ahead = self.ahead or {}
      self.ahead[#self.ahead + 1] = {date, tonumber(known[j] or 1)}
    end
  end
  local near = call('ZREVRANGEBYSCORE', self.key, from, '-inf', 'WITHSCORES', 'LIMIT', '0', '1')
  self.newest = math.max(self.newest, tonumber(near[2] or 0))
end

-- What is dated after now by so little that it may be another caller's clock.
function sliding_log:read_skewed(now, weighted)
  local from, to = string.format('(%d', now), string.format('%d', self.skew_end)
  local list = call('ZRANGEBYSCORE', self.key, from, to, 'WITHSCORES', 'LIMIT', '0', '1000')
  self.skew_end, self.ahead = nil, self.ahead or {}
  local near = {}
  for j = 1, #list, 2 do near[#near + 1] = list[j] end
  local costs = weighted and near[1] and call('HMGET', self.companion, unpack(near)) or {}
  for j = 1, #near do
    self.ahead[#self.ahead + 1] = {tonumber(list[2 * j]), tonumber(costs[j] or 1)}
  end
end

-- What settling would find, without doing it.
function sliding_log:peek(now, weighted, ids)
  if self.entries == 0 then
    self.extra = 0
  else
    local cutoff, redate = now - self.window, false
    self.oldest = tonumber(call('ZRANGE', self.key, '0', '0', 'WITHSCORES')[2])
    if self.oldest <= cutoff then
      self.oldest = nil
      self.expired = call('ZCOUNT', self.key, '-inf', string.format('%d', cutoff))
      if self.expired == self.entries then
        self.extra = 0
      elseif weighted then
        self:read_expired_weights()
      end
    end
    for j = 1, #ids do
      if self.scores[j] and tonumber(self.scores[j]) <= cutoff then self.scores[j] = false end
    end
    if self.expired < self.entries then
      self:read_newest(now, weighted, redate)
    end
  end
  self.used = self.entries - self.expired + self.extra
end

function sliding_log:read_expired_weights()
  for from = 0, math.min(self.expired, 16000) - 1, 1000 do
    local to = math.min(self.expired, from + 1000) - 1
    local gone = call('ZRANGE', self.key, string.format('%d', from), string.format('%d', to))
    local costs = call('HMGET', self.companion, unpack(gone))
    for j = 1, #gone do
      if costs[j] then self.extra = self.extra - costs[j] + 1 end
    end
  end
end

function sliding_log:state(reply)
  reply[self.slot], reply[self.slot + 1] = self.used, false
end

function sliding_log:try(cost)
  self.fits = self.used + cost <= self.limit
end

function sliding_log:take(cost)
  self.used = self.used + cost
end

-- How long until there is room for the cost, 0 when there is or never will be.
function sliding_log:wait(now, cost, weighted, adds, costs_by_id)
  self.room_after = 0
  if not self.fits and cost <= self.limit then
    if self.skew_end then
      self:read_skewed(now, weighted)
    end
    local need = self.used + cost - self.limit
    local counted = self.entries - self.expired - (self.ahead and #self.ahead or 0)
    if weighted or need > counted then
      self:walk(now, adds, costs_by_id, need, counted)
    elseif need == 1 and self.oldest then
      self.room_after = self.oldest + self.window - now
    else
      local rank = string.format('%d', self.expired + need - 1)
      local score = tonumber(call('ZRANGE', self.key, rank, rank, 'WITHSCORES')[2])
      self.room_after = math.min(score, now) + self.window - now
    end
  end
end

-- What is dated after now, and what this call itself has charged, frees its units last.
function sliding_log:walk(now, adds, costs_by_id, need, counted)
  local last, freed = {}, self.used
  for j = 1, self.ahead and #self.ahead or 0 do last[#last + 1] = self.ahead[j] end
  for j = 1, adds and #adds or 0, 2 do
    last[#last + 1] = {tonumber(adds[j]), costs_by_id[adds[j + 1]]}
  end
  for j = 1, #last do freed = freed - last[j][2] end
  if need > freed then
    table.sort(last, function(a, b) return a[1] < b[1] end)
    for j = 1, #last do
      freed = freed + last[j][2]
      self.room_after = last[j][1] + self.window - now
      if freed >= need then break end
    end
  else
    self:walk_oldest(now, need, counted)
  end
end

-- From the oldest on, until enough is free; beyond 1,024 entries a bound: each frees a unit.
function sliding_log:walk_oldest(now, need, counted)
  local freed, rank, wait = 0, self.expired, nil
  while not wait do
    local to = math.min(rank + 64, self.expired + counted)
    if rank >= self.expired + 1024 then
      rank = math.min(rank + need - freed, self.expired + counted) - 1
      to, freed = rank + 1, need
    end
    local from, last = string.format('%d', rank), string.format('%d', to - 1)
    local list = call('ZRANGE', self.key, from, last, 'WITHSCORES')
    local members = {}
    for j = 1, #list, 2 do members[#members + 1] = list[j] end
    local costs = call('HMGET', self.companion, unpack(members))
    for j = 1, #members do
      freed = freed + (costs[j] or 1)
      if freed >= need and not wait then
        wait = math.min(tonumber(list[2 * j]), now) + self.window - now
      end
    end
    if to == self.expired + counted then wait = wait or self.window end
    rank = to
  end
  self.room_after = wait
end

-- The newest entry, when it isn't what this call itself charges.
function sliding_log:report(now, verdict, cost, weighted)
  if not self.newest and self.entries > self.expired
    and (self.lease_end > now or verdict ~= 1 or cost == 0) then
    self.newest = tonumber(call('ZRANGE', self.key, '-1', '-1', 'WITHSCORES')[2])
    if not weighted and self.newest > now + math.min(math.floor(self.window / 10), 100000) then
      self.newest = now
    end
  end
end

-- A lease counts for a window after its end, so the keys live for as long after that.
function sliding_log:write(now, adds, weights, extra, lease_end, weighted, added)
  if not (self.is_first and added) then
    call('ZADD', self.key, 'NX', unpack(adds))
  end
  local counts_from = math.max(now, lease_end or 0, self.lease_end)
  if lease_end then
    self.expiry_due = true
  elseif self.expiry_due == nil then
    self.expiry_due = call('PTTL', self.key) * 1000 < self.window + self.slack / 2
  end
  if weights then
    local sum = string.format('%d', self.extra + extra)
    local lease = string.format('%070d', math.max(lease_end or 0, self.lease_end))
    call('HSET', self.companion, '\tsum', sum, '\tlease', lease, unpack(weights))
  end
  if self.expiry_due or weights and not self.has_companion then
    local lifetime = counts_from - now + self.window + self.slack
    local expiry = string.format('%d', math.ceil(lifetime / 1000))
    if self.expiry_due then call('PEXPIRE', self.key, expiry) end
    if weights or weighted then call('PEXPIRE', self.companion, expiry) end
  end
end

-- What is charged under an id, and when that was.
function sliding_log:trace(now, id)
  self.charged, self.charged_at = nil, nil
  if self.scores[1] then
    local entry = call('HMGET', self.companion, id, '\tl' .. id)
    self.charged = tonumber(entry[1] or 1)
    self.charged_at = math.min(self.scores[1] - (entry[2] or 0), now)
  end
end

function sliding_log:give(id, units)
  self.given = 0
  if self.charged and units > 0 then
    self.given = math.min(units, self.charged)
    local less, rest = self.given, self.charged - self.given
    call('UNLINK', KEYS[1] .. ':n')
    if rest == 0 then
      call('ZREM', self.key, id)
      call('HDEL', self.companion, id, '\tl' .. id)
      less = self.charged - 1
    elseif rest == 1 and call('HEXISTS', self.companion, '\tl' .. id) == 0 then
      call('HDEL', self.companion, id)
    else
      call('HSET', self.companion, id, string.format('%d', rest))
    end
    if less > 0 and call('HINCRBY', self.companion, '\tsum', string.format('%d', -less)) == 0
      and call('HLEN', self.companion) <= 2 then
      call('UNLINK', self.companion)
    end
  end
end

function sliding_log:replay(now, id, cost, at, held)
  self.restored = tonumber(at) > now - self.window and call('ZADD', self.key, 'NX', at, id) == 1
  if self.restored and (cost ~= 1 or held ~= '') then
    call('HSET', self.companion, id, string.format('%d', cost))
    if held ~= '' then
      self.lease_end = math.max(self.lease_end or 0, at)
      local lease_end = tonumber(call('HGET', self.companion, '\tlease') or 0)
      lease_end = string.format('%d', math.max(lease_end, at))
      call('HSET', self.companion, '\tl' .. id, held, '\tlease', lease_end)
    end
    call('HINCRBY', self.companion, '\tsum', string.format('%d', cost - 1))
  end
end

function sliding_log:extend(now)
  local counts_for = math.max(self.lease_end or 0, now) - now + self.window
  local least = counts_for + self.slack / 2
  local expiry = string.format('%d', math.ceil((counts_for + self.slack) / 1000))
  if call('PTTL', self.key) * 1000 < least then call('PEXPIRE', self.key, expiry) end
  if call('PTTL', self.companion) * 1000 < least then call('PEXPIRE', self.companion, expiry) end
end

return sliding_log
