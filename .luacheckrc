-- The scripts run inside Redis: Lua 5.1 without its dangerous parts.
stds.redis = {
  read_globals = {
    'KEYS', 'ARGV', 'redis', 'struct', 'cjson', 'cmsgpack', 'bit', 'math', 'string', 'table',
    'error', 'ipairs', 'select', 'tonumber', 'tostring', 'unpack',
  },
}
-- What a composed script's head defines for the files in it: src/store/cluster/script/compose.rs.
stds.composed = {
  read_globals = {
    'call', -- redis.call
    'ceilings', 'counters', 'logs', 'limiting_logs', -- loops over these are unrolled
    'ceiling_count', 'first_request', 'first_companion', 'has_logs', 'has_record',
    'note_format',
    'now', 'callers_clock', -- by clock.lua
    'divmod', -- by arithmetic.lua
    'token_bucket', -- leaky_bucket.lua's
  },
}
std = 'redis+composed'
-- Methods of one name take the same arguments, whatever the algorithm.
self = false
unused_args = false
max_line_length = 110
