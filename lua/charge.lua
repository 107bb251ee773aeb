-- One call: requests of one subject, decided in order, each against all ceilings or none.
-- Reads and checks everything before it writes. A denial writes nothing but the housekeeping that
-- time alone would do: what expired goes, what a clock left in the future comes back.
--@ once clock
local total = 0
for r = _r_, #A, 3 do total = total + A[r + 1] end
local look = #A > _r_ + 2 or string.sub(A[_r_ + 2], 1, 1) ~= 'f'
while true do
  local out = {A[_r_], now, _slots_}
  --@ each read
  --@ once weigh
  --@ each settle
  --@ each state
  local stamp, adds, weights, extra, names, records
  for r = _r_, #A, 3 do
    local id, cost, how = A[r], tonumber(A[r + 1]), A[r + 2]
    local seen, held = false, 0
    if how ~= 'f' then held = tonumber(string.sub(how, 2)) or 0 end
    if look then
      seen = names and names[id]
      --@ once find
    end
    --@ each try
    local verdict = 0
    if seen then
      verdict = 2
    elseif cost == 0 then
      verdict = 1
    elseif _all_ok_ then
      verdict = 1
      --@ each take
      --@ once keep
    end
    out[#out + 1] = verdict
    if verdict == 0 then
      --@ each refuse
    end
    --@ each report
  end
  local clear = true
  --@ once claim
  if clear then
    --@ each write
    --@ once remember
    return out
  end
  look = true -- the call had run already: look at what it left
end
