-- The common case by the shortest way: one fresh unit, by the server's clock, against logs of
-- units alone. Whatever else turns up is left to the long way, before anything is charged.
-- Logs of one window are due for a refresh of their expiry together: the long way refreshes all,
-- and none is charged less often than the last, the region's.

--@ section sprint
if A[_r_ + 1] == 'f1' and A[1] == '' and not A[_r_ + 2] then
  --@ logs glance
  local t, now
  if not (<<n_i_ < L_i_| and >>) then
    --@ once recall
  end
  if call('EXISTS', <<logs K[_x_]>>) == 0 then
    t = t or call('TIME')
    local plain, id = true, A[_r_]
    if not (<<n_i_ < L_i_| and >>) then
      now = t[1] * 1000000 + t[2]
      --@ logs crowd
    end
    if not plain then
      -- the long way
    elseif <<n_i_ < L_i_| and >> then
      if <<n_i_ > 0| and >>
        and call('PTTL', K[_n_]) * 64000 >= A[_r_ - 1] * 65 + 64000
        and <<(A[_a_ + 1] == A[_r_ - 1] or call('PTTL', K[_i_]) * 64000 >= A[_a_ + 1] * 65 + 64000)| and >> then
        local stamp = t[2]
        if #stamp < 6 then stamp = string.sub('00000', #stamp) .. stamp end
        stamp = t[1] .. stamp
        if call('ZADD', K[_first_], 'NX', stamp, id) == 1 then
          --@ logs join
          if <<n_i_ + 1 == L_i_| or >> then
            --@ once note
          end
          return {id, stamp, <<n_i_>>}
        end
      end
    else
      --@ logs turned_away
      if plain then return {id, now, <<n_i_, last_i_>>, 0, <<wait_i_>>} end
    end
  end
end

--@ section glance
local n_i_, L_i_ = call('ZCARD', K[_i_]), A[_a_] + 0

--@ section recall
-- What the charge that filled a log noted: while no log has changed since, it answers all, and
-- spares the scores, which are dear to read.
local note = call('HGET', K[1] .. ':n', K[_n_])
if note then
  t = call('TIME')
  now = t[1] * 1000000 + t[2]
  local last, <<m_i_, first_i_>> = struct.unpack('<d<<dd|>>', note)
  if last <= now and <<m_i_ == n_i_ and n_i_ <= L_i_ and first_i_ > now - A[_a_ + 1]| and >> then
    return {A[_r_], now, note}
  end
end

--@ section note
--@ logs oldest
call('HSET', K[1] .. ':n', K[_n_], struct.pack('<d<<dd|>>', stamp, <<n_i_ + 1, first_i_>>))
call('PEXPIRE', K[1] .. ':n', string.format('%d', math.max(<<A[_a_ + 1]>>) / 1000 + 1))

--@ section oldest
local first_i_ = call('ZRANGE', K[_i_], '0', '0', 'WITHSCORES')[2]

--@ section crowd
-- Somewhere it is full: what has expired goes, everywhere, and all numbers are exact.
local cut_i_, gone_i_ = now - A[_a_ + 1], 0
if n_i_ > 1000 then
  gone_i_ = call('ZCOUNT', K[_i_], '-inf', string.format('%d', cut_i_))
  if gone_i_ > 1000 then
    plain = false
  elseif gone_i_ > 0 then
    call('ZREMRANGEBYRANK', K[_i_], '0', string.format('%d', gone_i_ - 1))
  end
elseif n_i_ > 0 then
  gone_i_ = call('ZREMRANGEBYSCORE', K[_i_], '-inf', string.format('%d', cut_i_))
end
n_i_ = n_i_ - gone_i_
if n_i_ > L_i_ or n_i_ == 0 then plain = false end

--@ section join
if _i_ > _first_ then call('ZADD', K[_i_], stamp, id) end

--@ section turned_away
local wait_i_, last_i_ = 0, -1
if n_i_ == L_i_ then
  wait_i_ = call('ZRANGE', K[_i_], '0', '0', 'WITHSCORES')[2] - (now - A[_a_ + 1])
  if wait_i_ <= 0 then plain = false end
end
if n_i_ > 0 then last_i_ = call('ZRANGE', K[_i_], '-1', '-1', 'WITHSCORES')[2] + 0 end
if last_i_ > now then plain = false end

