-- One call: requests of one subject, decided in order, each against all ceilings or none.
-- Reads and checks everything before it writes. A denial writes nothing but the housekeeping that
-- time alone would do: what expired goes, what a clock left in the future comes back.
local call, K, A = redis.call, KEYS, ARGV
--@ once sprint
--@ once clock
local many, unit = A[_r_ + 2] ~= nil, A[_r_ + 1] == 'f1'
local how, cost, held, total = 'f', 1, nil, 1
if not unit then
  how, cost, held = string.match(A[_r_ + 1], '^(%a)(%d+)%+?(%d*)$')
  cost, held = tonumber(cost), tonumber(held)
  total = cost
end
local look = many or how ~= 'f'
-- what was never sent before can have been charged only by this very call, carried twice: the
-- first log knows
local resent = how ~= 'f'
for r = _r_ + 3, many and #A or 0, 2 do
  resent = resent or string.sub(A[r], 1, 1) ~= 'f'
  total = total + string.match(A[r], '%d+')
end
while true do
  local out = {A[_r_], now, _slots_}
  --@ each read
  --@ once weigh
  --@ each settle
  --@ each state
  local stamp, adds, weights, extra, lease, names
  for r = _r_, #A, 2 do
    local id, seen = A[r], nil
    if many then
      how, cost, held = 'f', 1, nil
      if A[r + 1] ~= 'f1' then
        how, cost, held = string.match(A[r + 1], '^(%a)(%d+)%+?(%d*)$')
        cost, held = tonumber(cost), tonumber(held)
      end
    end
    if look then
      seen = names and names[id]
      --@ once find
    end
    --@ each try
    local verdict = 0
    if seen then
      verdict = 1 + seen
    elseif cost == 0 then
      verdict = 1
    elseif <<ok_i_| and >> then
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
    return out
  end
  look, resent = true, true -- the call had run already: look at what it left
end
