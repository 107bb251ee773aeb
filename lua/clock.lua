--@ section clock
local now = tonumber(A[1])
local exact = now ~= nil
if not exact then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
