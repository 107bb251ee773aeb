-- Puts back what a failover lost: each charge where it was, at its own instant, in every log that
-- still counts it, whatever the limit says: it was admitted. What is there stays as it is.
-- Three for each charge: id, units, '<us>' or '<us> <us a lease is held>'; the first is its instant.
local call, K, A = redis.call, KEYS, ARGV
--@ once clock
--@ logs read
local restored = 0
for r = _r_, #A, 3 do
  local id, cost = A[r], tonumber(A[r + 1])
  local at, held = string.match(A[r + 2], '^(%d+) ?(%d*)$')
  local back = 0
  --@ logs replay
  restored = restored + back
end
if restored > 0 then call('UNLINK', K[1] .. ':n') end
--@ logs extend
return {A[_r_], now, restored}
