-- Twin of algorithm/token_bucket.rs, on the meter of algorithm/gcra.rs. A string of four packed
-- doubles, all whole: when the bucket has drained, as microseconds and a numerator over the limit,
-- then the limit and the window under which it was written.
-- ARGV: limit, window (us), burst, slack of the expiry (ms).
local token_bucket = {}

function token_bucket:read(now)
  self.limit, self.window = ARGV[self.args] + 0, ARGV[self.args + 1] + 0
  self.burst = ARGV[self.args + 2] + 0
  -- what has not drained, and what a full bucket owes: each in us and a numerator over the limit
  self.owed, self.owed_part, self.full, self.full_part = 0, 0, 0, 0
  self.changed = false
  self.stored = call('GET', self.key)
  if self.limit > 0 then
    self.full, self.full_part = divmod(self.burst, self.window, self.limit)
    if self.stored then
      if #self.stored ~= 32 then error({err = 'WRONGTYPE not a bucket: ' .. self.key}) end
      local drained_at, part, limit, window = struct.unpack('<dddd', self.stored)
      if drained_at > now or drained_at == now and part > 0 then
        self.owed, self.owed_part = drained_at - now, part
        if limit ~= self.limit or window ~= self.window then
          -- what is used, in whole units, stays used under the new rate
          local used, rest = divmod(self.owed, limit, window)
          used = used + math.ceil((rest + self.owed_part) / window)
          self.owed, self.owed_part = divmod(math.min(used, self.burst), self.window, self.limit)
          self.changed = true
        end
        if self.owed > self.full or self.owed == self.full and self.owed_part > self.full_part then
          -- nothing owes more than a full bucket: a clock that stepped back, a lowered burst
          self.owed, self.owed_part, self.changed = self.full, self.full_part, true
        end
      end
    end
  end
end

function token_bucket:state(reply)
  reply[self.slot] = self.stored
end

function token_bucket:try(cost)
  self.fits, self.next, self.next_part = false, nil, nil
  if cost <= self.burst and self.limit > 0 then
    local next, part = divmod(cost, self.window, self.limit)
    next, part = self.owed + next, self.owed_part + part
    if part >= self.limit then next, part = next + 1, part - self.limit end
    self.next, self.next_part = next, part
    self.fits = next < self.full or next == self.full and part <= self.full_part
  end
end

function token_bucket:take(cost)
  self.owed, self.owed_part, self.changed = self.next, self.next_part, true
end

function token_bucket:write(now)
  if self.changed then
    local state = struct.pack('<dddd', now + self.owed, self.owed_part, self.limit, self.window)
    local expiry = string.format('%d', self.owed / 1000 + 1 + ARGV[self.args + 3])
    call('SET', self.key, state, 'PX', expiry)
  end
end

function token_bucket:give(now, at, had, units)
  self.given = 0
  if self.limit > 0 and (self.owed > 0 or self.owed_part > 0) then
    -- the charge's own units drain first; what else came is not its to give back
    local us, part = divmod(had, self.window, self.limit)
    us = us - math.max(now - at, 0)
    if us > self.owed or us == self.owed and part > self.owed_part then
      us, part = self.owed, self.owed_part
    end
    local most, most_part = divmod(units, self.window, self.limit)
    if us > most or us == most and part > most_part then us, part = most, most_part end
    if us > 0 or us == 0 and part > 0 then
      self.owed, self.owed_part = self.owed - us, self.owed_part - part
      if self.owed_part < 0 then
        self.owed, self.owed_part = self.owed - 1, self.owed_part + self.limit
      end
      local whole, rest = divmod(us, self.limit, self.window)
      self.given = whole + math.ceil((rest + part) / self.window)
      self.changed = true
    end
  end
end

return token_bucket
