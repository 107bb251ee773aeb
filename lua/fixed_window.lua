-- Twin of algorithm/fixed_window.rs. A string of three packed doubles, all whole: the window's
-- number, its length, units in it.
-- ARGV: limit, window (us), expiry (ms).
local fixed_window = {}

function fixed_window:read(now)
  self.limit, self.window = ARGV[self.args] + 0, ARGV[self.args + 1] + 0
  self.stored = call('GET', self.key)
  self.index = math.floor(now / self.window)
  self.units, self.keep_expiry, self.changed = 0, false, false
  if self.stored then
    if #self.stored ~= 24 then error({err = 'WRONGTYPE not a window: ' .. self.key}) end
    local index, window, units = struct.unpack('<ddd', self.stored)
    local present = math.floor(now / window)
    if present <= index then
      self.units = units
      -- a clock that stepped back, another window's length: kept, for one window from here on
      self.changed = present < index or window ~= self.window
      self.keep_expiry = not self.changed
    end
  end
end

function fixed_window:state(reply)
  reply[self.slot] = self.stored
end

function fixed_window:try(cost)
  self.fits = self.units + cost <= self.limit
end

function fixed_window:take(cost)
  self.units, self.changed = self.units + cost, true
end

function fixed_window:write(now)
  if self.changed then
    local state = struct.pack('<ddd', self.index, self.window, self.units)
    if self.keep_expiry then
      call('SET', self.key, state, 'KEEPTTL')
    else
      call('SET', self.key, state, 'PX', ARGV[self.args + 2])
    end
  end
end

function fixed_window:give(now, at, had, units)
  self.given = 0
  if at >= self.index * self.window then
    self.given = math.min(units, self.units)
    self.units = self.units - self.given
    self.changed = self.changed or self.given > 0
  end
end

return fixed_window
