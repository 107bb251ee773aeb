-- Gives a charge back in every ceiling that still counts it, whole or in part.
local call, K, A = redis.call, KEYS, ARGV
--@ once clock
local look, resent, total, adds = true, true, 0, nil
local id, asked = A[_r_], tonumber(A[_r_ + 1])
--@ each read
--@ once weigh
--@ each settle
local had, at, given = nil, nil, 0 -- what the charge holds, since when, and what is given back
--@ logs trace
if had then
  local units = math.min(asked or had, had)
  --@ each give
end
--@ each write
return {id, now, given}
