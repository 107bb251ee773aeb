-- Twin of algorithm/fixed_window.rs. A string of three packed doubles, all whole: the window's
-- number, its length, units in it.
-- ARGV: limit, window (us), expiry (ms).

--@ section read
local L_i_, W_i_ = A[_a_] + 0, A[_a_ + 1] + 0
local state_i_ = call('GET', K[_i_])
local index_i_ = math.floor(now / W_i_)
local n_i_, same_i_, dirty_i_ = 0, false, false
if state_i_ then
  if #state_i_ ~= 24 then return redis.error_reply('WRONGTYPE not a window: ' .. K[_i_]) end
  local index, window, units = struct.unpack('<ddd', state_i_)
  local present = math.floor(now / window)
  if present <= index then
    n_i_ = units
    -- a clock that stepped back, another window's length: kept, for one window from here on
    dirty_i_ = present < index or window ~= W_i_
    same_i_ = not dirty_i_
  end
end

--@ section state
out[_s_] = state_i_

--@ section try
local ok_i_ = n_i_ + cost <= L_i_

--@ section take
n_i_, dirty_i_ = n_i_ + cost, true

--@ section write
if dirty_i_ then
  local state = struct.pack('<ddd', index_i_, W_i_, n_i_)
  if same_i_ then
    call('SET', K[_i_], state, 'KEEPTTL')
  else
    call('SET', K[_i_], state, 'PX', A[_a_ + 2])
  end
end

--@ section give
if at >= index_i_ * W_i_ then
  local less = math.min(units, n_i_)
  n_i_, given = n_i_ - less, math.max(given, less)
  if less > 0 then dirty_i_ = true end
end
