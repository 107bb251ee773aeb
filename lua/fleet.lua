-- Who is alive: a member a limiter node, its score the millisecond at which it is forgotten.
-- KEYS[1] the set. ARGV[1] the node; ARGV[2] how long it lives, in ms (0: it leaves; -1: only
-- ask); ARGV[3] the most members. Replies how many live, then (when only asked) who.
local key, node, ttl, most = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ttl < 0 then
  local living = redis.call('ZRANGEBYSCORE', key, string.format('(%d', now), '+inf')
  return {#living, living}
end
local left = redis.call('PTTL', key)
redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now))
if ttl == 0 then
  redis.call('ZREM', key, node)
elseif redis.call('ZSCORE', key, node) or redis.call('ZCARD', key) < most then
  redis.call('ZADD', key, string.format('%d', now + ttl), node)
  if left < 2 * ttl then
    redis.call('PEXPIRE', key, string.format('%d', 3 * ttl))
  end
end
return {redis.call('ZCARD', key), {}}
