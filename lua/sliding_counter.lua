-- Twin of algorithm/sliding_counter.rs. A string of four packed doubles, all whole: the window's
-- number, its length, units in it, and units in the one before, which counts by the part of it that
-- still overlaps.
-- ARGV: limit, window (us), expiry (ms).

--@ section read
local L_i_, W_i_ = A[_a_] + 0, A[_a_ + 1] + 0
local state_i_ = call('GET', K[_i_])
local index_i_ = math.floor(now / W_i_)
local n_i_, p_i_, carried_i_, same_i_, dirty_i_ = 0, 0, 0, false, false
if state_i_ then
  if #state_i_ ~= 32 then return redis.error_reply('WRONGTYPE not a counter: ' .. K[_i_]) end
  local index, window, current, previous = struct.unpack('<dddd', state_i_)
  local present = math.floor(now / window)
  if present <= index then
    n_i_, p_i_ = current, previous
    -- a clock that stepped back: what was used counts in this window
    dirty_i_ = present < index
    same_i_ = not dirty_i_
  elseif present == index + 1 then
    p_i_ = current
  end
  if p_i_ > 0 then
    local rest
    carried_i_, rest = divmod(p_i_, window - (now - present * window), window)
    if rest > 0 then carried_i_ = carried_i_ + 1 end
  end
  if window ~= W_i_ then
    -- what is used becomes the present window's, in the new length
    n_i_, p_i_, carried_i_, same_i_, dirty_i_ = n_i_ + carried_i_, 0, 0, false, true
  end
end

--@ section state
out[_s_] = state_i_

--@ section try
local ok_i_ = carried_i_ + n_i_ + cost <= L_i_

--@ section take
n_i_, dirty_i_ = n_i_ + cost, true

--@ section write
if dirty_i_ then
  local state = struct.pack('<dddd', index_i_, W_i_, n_i_, p_i_)
  if same_i_ then
    call('SET', K[_i_], state, 'KEEPTTL')
  else
    call('SET', K[_i_], state, 'PX', A[_a_ + 2])
  end
end

--@ section give
local age_i_ = index_i_ - math.floor(at / W_i_)
if age_i_ == 0 then
  local less = math.min(units, n_i_)
  n_i_, given = n_i_ - less, math.max(given, less)
  dirty_i_ = dirty_i_ or less > 0
elseif age_i_ == 1 and p_i_ > 0 then
  local less = math.min(units, p_i_)
  p_i_, given = p_i_ - less, math.max(given, less)
  if dirty_i_ or same_i_ then
    dirty_i_ = true
  else
    -- the state is still the last window's, and stays it until something is charged
    call('SET', K[_i_], struct.pack('<dddd', index_i_ - 1, W_i_, p_i_, select(4, struct.unpack('<dddd', state_i_))), 'KEEPTTL')
  end
end
