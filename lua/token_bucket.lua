-- Twin of algorithm/token_bucket.rs, on the meter of algorithm/gcra.rs. A string of four packed
-- doubles, all whole: when the bucket has drained, as microseconds and a numerator over the limit,
-- then the limit and the window under which it was written.
-- ARGV: limit, window (us), burst, slack of the expiry (ms).

--@ section read
local L_i_, W_i_, B_i_ = A[_a_] + 0, A[_a_ + 1] + 0, A[_a_ + 2] + 0
-- owed: what has not drained; full: what a full bucket owes; each in us and numerator
local owed_i_, part_i_, full_i_, brim_i_, dirty_i_ = 0, 0, 0, 0, false
local state_i_ = call('GET', K[_i_])
if L_i_ > 0 then
  full_i_, brim_i_ = divmod(B_i_, W_i_, L_i_)
  if state_i_ then
    if #state_i_ ~= 32 then return redis.error_reply('WRONGTYPE not a bucket: ' .. K[_i_]) end
    local t, f, limit, window = struct.unpack('<dddd', state_i_)
    if t > now or t == now and f > 0 then
      owed_i_, part_i_ = t - now, f
      if limit ~= L_i_ or window ~= W_i_ then
        -- what is used, in whole units, stays used under the new rate
        local used, rest = divmod(owed_i_, limit, window)
        used = used + math.ceil((rest + part_i_) / window)
        owed_i_, part_i_ = divmod(math.min(used, B_i_), W_i_, L_i_)
        dirty_i_ = true
      end
      if owed_i_ > full_i_ or owed_i_ == full_i_ and part_i_ > brim_i_ then
        -- nothing owes more than a full bucket: a clock that stepped back, a lowered burst
        owed_i_, part_i_, dirty_i_ = full_i_, brim_i_, true
      end
    end
  end
end

--@ section state
out[_s_] = state_i_

--@ section try
local ok_i_, next_i_, numerator_i_ = false, nil, nil
if cost <= B_i_ and L_i_ > 0 then
  next_i_, numerator_i_ = divmod(cost, W_i_, L_i_)
  next_i_, numerator_i_ = owed_i_ + next_i_, part_i_ + numerator_i_
  if numerator_i_ >= L_i_ then next_i_, numerator_i_ = next_i_ + 1, numerator_i_ - L_i_ end
  ok_i_ = next_i_ < full_i_ or next_i_ == full_i_ and numerator_i_ <= brim_i_
end

--@ section take
owed_i_, part_i_, dirty_i_ = next_i_, numerator_i_, true

--@ section write
if dirty_i_ then
  call('SET', K[_i_], struct.pack('<dddd', now + owed_i_, part_i_, L_i_, W_i_),
    'PX', string.format('%d', owed_i_ / 1000 + 1 + A[_a_ + 3]))
end

--@ section give
if L_i_ > 0 and (owed_i_ > 0 or part_i_ > 0) then
  -- the charge's own units drain first; what else came is not its to give back
  local us, part = divmod(had, W_i_, L_i_)
  us = us - math.max(now - at, 0)
  if us > owed_i_ or us == owed_i_ and part > part_i_ then us, part = owed_i_, part_i_ end
  local most, most_part = divmod(units, W_i_, L_i_)
  if us > most or us == most and part > most_part then us, part = most, most_part end
  if us > 0 or us == 0 and part > 0 then
    owed_i_, part_i_ = owed_i_ - us, part_i_ - part
    if part_i_ < 0 then owed_i_, part_i_ = owed_i_ - 1, part_i_ + L_i_ end
    local less, rest = divmod(us, L_i_, W_i_)
    given = math.max(given, less + math.ceil((rest + part) / W_i_))
    dirty_i_ = true
  end
end
