-- The call's instant in microseconds: the caller's, or when it names none the server's own.
local now = tonumber(ARGV[1])
local callers_clock = now ~= nil -- luacheck: ignore 211
if not callers_clock then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2] -- luacheck: ignore 311
end
