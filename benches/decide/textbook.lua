-- The textbook's sliding log on two keys: what the scripts are measured against.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local window = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - window)
local global = redis.call('ZCARD', KEYS[1])
local region = redis.call('ZCARD', KEYS[2])
if global >= tonumber(ARGV[1]) or region >= tonumber(ARGV[2]) then
  return {0, ARGV[1] - global, ARGV[2] - region}
end
redis.call('ZADD', KEYS[1], now, ARGV[4])
redis.call('ZADD', KEYS[2], now, ARGV[4])
redis.call('PEXPIRE', KEYS[1], window / 1000)
redis.call('PEXPIRE', KEYS[2], window / 1000)
return {1, ARGV[1] - global - 1, ARGV[2] - region - 1}
