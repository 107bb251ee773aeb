-- Gives a charge back in every ceiling that still counts it, whole or in part.
local call, K, A = redis.call, KEYS, ARGV
--@ once clock
local id, asked = A[_r_], tonumber(A[_r_ + 1])
local had, at, given = nil, nil, 0 -- what the charge holds, when it was charged, what is given back
--@ each trace
--@ once retrace
if not had then return {id, now, 0} end
local units = math.min(asked or had, had)
--@ each give
--@ once regive
return {id, now, given}
