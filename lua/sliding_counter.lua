-- Twin of algorithm/sliding_counter.rs. A hash: i = the window's number, w = its length, n = units
-- in it, p = units in the one before, which counts by the part that still overlaps.
-- ARGV: limit, window (us), expiry (ms).

--@ section read
local L_i_, W_i_ = tonumber(A[_a_]), tonumber(A[_a_ + 1])
local state_i_ = call('HMGET', K[_i_], 'i', 'w', 'n', 'p')
local index_i_ = math.floor(now / W_i_)
local n_i_, p_i_, carried_i_, was_i_, dirty_i_ = 0, 0, 0, nil, false
if state_i_[1] then
  local index, window = tonumber(state_i_[1]), tonumber(state_i_[2])
  local present = math.floor(now / window)
  if present <= index then
    n_i_, p_i_ = tonumber(state_i_[3]), tonumber(state_i_[4])
    -- a clock that stepped back: what was used counts in this window
    dirty_i_ = present < index
    was_i_ = not dirty_i_ and n_i_
  elseif present == index + 1 then
    p_i_ = tonumber(state_i_[3])
  end
  if p_i_ > 0 then
    local rest
    carried_i_, rest = divmod(p_i_, window - (now - present * window), window)
    if rest > 0 then carried_i_ = carried_i_ + 1 end
  end
  if window ~= W_i_ then
    -- what is used becomes the present window's, in the new length
    n_i_, p_i_, carried_i_, was_i_, dirty_i_ = n_i_ + carried_i_, 0, 0, nil, true
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
  if was_i_ then
    call('HINCRBY', K[_i_], 'n', string.format('%d', n_i_ - was_i_))
  else
    call('HSET', K[_i_], 'i', string.format('%d', index_i_), 'w', A[_a_ + 1],
      'n', string.format('%d', n_i_), 'p', string.format('%d', p_i_))
    call('PEXPIRE', K[_i_], A[_a_ + 2])
  end
end

--@ section give
local age_i_ = index_i_ - math.floor(at / W_i_)
if age_i_ == 0 then
  local less = math.min(units, n_i_)
  n_i_, given = n_i_ - less, math.max(given, less)
  if less > 0 then dirty_i_ = true end
elseif age_i_ == 1 then
  local less = math.min(units, p_i_)
  given = math.max(given, less)
  if dirty_i_ then
    p_i_ = p_i_ - less
  elseif less > 0 then
    call('HINCRBY', K[_i_], was_i_ and 'p' or 'n', string.format('%d', -less))
  end
end
