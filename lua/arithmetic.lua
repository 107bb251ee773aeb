-- Whole-number arithmetic beyond a double's 53 bits.

-- floor(a * b / c) and its remainder; a, b, c and both results below 2^53, c below 2^51.
local function divmod(a, b, c) -- luacheck: ignore 211
  local p = a * b
  if p < 9007199254740992 then
    local q = math.floor(p / c)
    return q, p - q * c
  end
  local whole = math.floor(b / c)
  local part = b - whole * c
  local bit, q, r = 1, 0, 0
  while bit * 2 <= a do bit = bit * 2 end
  while bit >= 1 do
    q, r = q * 2, r * 2
    if a >= bit then a, q, r = a - bit, q + whole, r + part end
    while r >= c do q, r = q + 1, r - c end
    bit = bit / 2
  end
  return q, r
end
