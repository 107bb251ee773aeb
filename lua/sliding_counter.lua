-- Twin of algorithm/sliding_counter.rs. A string of four packed doubles, all whole: the window's
-- number, its length, units in it, and units in the one before, which counts by the part of it that
-- still overlaps.
-- ARGV: limit, window (us), expiry (ms).
local sliding_counter = {}

function sliding_counter:read(now)
  self.limit, self.window = ARGV[self.args] + 0, ARGV[self.args + 1] + 0
  self.stored = call('GET', self.key)
  self.index = math.floor(now / self.window)
  -- units of this window and of the one before; what of these still counts
  self.current, self.previous, self.overlap = 0, 0, 0
  self.keep_expiry, self.changed = false, false
  if self.stored then
    if #self.stored ~= 32 then error({err = 'WRONGTYPE not a counter: ' .. self.key}) end
    local index, window, current, previous = struct.unpack('<dddd', self.stored)
    local present = math.floor(now / window)
    if present <= index then
      self.current, self.previous = current, previous
      -- a clock that stepped back: what was used counts in this window
      self.changed = present < index
      self.keep_expiry = not self.changed
    elseif present == index + 1 then
      self.previous = current
    end
    if self.previous > 0 then
      local overlap, rest = divmod(self.previous, window - (now - present * window), window)
      if rest > 0 then overlap = overlap + 1 end
      self.overlap = overlap
    end
    if window ~= self.window then
      -- what is used becomes the present window's, in the new length
      self.current, self.previous, self.overlap = self.current + self.overlap, 0, 0
      self.keep_expiry, self.changed = false, true
    end
  end
end

function sliding_counter:state(reply)
  reply[self.slot] = self.stored
end

function sliding_counter:try(cost)
  self.fits = self.overlap + self.current + cost <= self.limit
end

function sliding_counter:take(cost)
  self.current, self.changed = self.current + cost, true
end

function sliding_counter:write(now)
  if self.changed then
    local state = struct.pack('<dddd', self.index, self.window, self.current, self.previous)
    if self.keep_expiry then
      call('SET', self.key, state, 'KEEPTTL')
    else
      call('SET', self.key, state, 'PX', ARGV[self.args + 2])
    end
  end
end

function sliding_counter:give(now, at, had, units)
  self.given = 0
  local age = self.index - math.floor(at / self.window)
  if age == 0 then
    self.given = math.min(units, self.current)
    self.current = self.current - self.given
    self.changed = self.changed or self.given > 0
  elseif age == 1 and self.previous > 0 then
    self.given = math.min(units, self.previous)
    self.previous = self.previous - self.given
    if self.changed or self.keep_expiry then
      self.changed = true
    else
      -- the state is still the last window's, and stays it until something is charged
      local before = select(4, struct.unpack('<dddd', self.stored))
      local state = struct.pack('<dddd', self.index - 1, self.window, self.previous, before)
      call('SET', self.key, state, 'KEEPTTL')
    end
  end
end

return sliding_counter
