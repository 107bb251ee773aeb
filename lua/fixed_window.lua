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

--@ section trace
local state_i_ = call('HMGET', K[_i_], 'i', 'w', 'n')

--@ section give
if state_i_[1] and math.floor(math.min(at, now) / tonumber(state_i_[2])) == tonumber(state_i_[1])
  and math.floor(now / tonumber(state_i_[2])) <= tonumber(state_i_[1]) then
  local less = math.min(units, tonumber(state_i_[3]))
  call('HINCRBY', K[_i_], 'n', string.format('%d', -less))
  given = math.max(given, less)
end
