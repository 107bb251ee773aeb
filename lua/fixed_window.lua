-- Twin of algorithm/fixed_window.rs. A hash: i = the window's number, w = its length, n = units.
-- ARGV: limit, window (us), expiry (ms).

--@ section read
local L_i_, W_i_ = tonumber(A[_a_]), tonumber(A[_a_ + 1])
local state_i_ = call('HMGET', K[_i_], 'i', 'w', 'n')
local index_i_ = math.floor(now / W_i_)
local n_i_, was_i_, dirty_i_ = 0, nil, false
if state_i_[1] then
  local index, window = tonumber(state_i_[1]), tonumber(state_i_[2])
  local present = math.floor(now / window)
  if present <= index then
    n_i_ = tonumber(state_i_[3])
    -- a clock that stepped back, another window's length: kept, for one window from here on
    dirty_i_ = present < index or window ~= W_i_
    was_i_ = not dirty_i_ and n_i_
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
  if was_i_ then
    call('HINCRBY', K[_i_], 'n', string.format('%d', n_i_ - was_i_))
  else
    call('HSET', K[_i_], 'i', string.format('%d', index_i_), 'w', A[_a_ + 1], 'n', string.format('%d', n_i_))
    call('PEXPIRE', K[_i_], A[_a_ + 2])
  end
end

--@ section give
if at >= index_i_ * W_i_ then
  local less = math.min(units, n_i_)
  n_i_, given = n_i_ - less, math.max(given, less)
  if less > 0 then dirty_i_ = true end
end
