-- The same decisions, each request on its own, and nothing changed: no housekeeping either.
--@ once clock
local look = true
local out = {A[_r_], now, _slots_}
--@ each read
--@ once weigh
--@ each survey
--@ each state
for r = _r_, #A, 3 do
  local id, cost, how = A[r], tonumber(A[r + 1]), A[r + 2]
  local seen = false
  --@ once find
  --@ each try
  local verdict = 0
  if seen then
    verdict = 2
  elseif cost == 0 or _all_ok_ then
    verdict = 1
  end
  out[#out + 1] = verdict
  if verdict == 0 then
    --@ each refuse
  end
  --@ each report
end
return out
