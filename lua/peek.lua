-- The same decisions, each request on its own, and nothing changed: no housekeeping either.
local call, K, A = redis.call, KEYS, ARGV
--@ once clock
local look, resent, adds, names = true, true, nil, nil
local out = {A[_r_], now, _slots_}
--@ each read
--@ once weigh
--@ each survey
--@ each state
for r = _r_, #A, 2 do
  local id, seen = A[r], nil
  local how, cost = string.match(A[r + 1], '^(%a)(%d+)')
  cost = tonumber(cost)
  --@ once find
  --@ each try
  local verdict = 0
  if seen then
    verdict = 1 + seen
  elseif cost == 0 or <<ok_i_| and >> then
    verdict = 1
  end
  out[#out + 1] = verdict
  if verdict == 0 then
    --@ each refuse
  end
  --@ each report
end
return out
