-- The common case by the fewest commands: one fresh unit, by the server's clock, against logs of
-- units alone. Whatever else turns up is left to charge.lua, before anything is charged.
-- Logs of one window are due for a refresh of their expiry together: charge.lua refreshes all, and
-- none is charged less often than the last, the region's.
if ARGV[first_request + 1] == 'f1' and ARGV[1] == '' and not ARGV[first_request + 2] then
  local room, time, now = true, nil, nil
  for _, log in ipairs(logs) do
    log.limit, log.window = ARGV[log.args] + 0, ARGV[log.args + 1]
    log.entries = call('ZCARD', log.key)
    room = room and log.entries < log.limit
  end
  if not room then
    -- What the charge that filled a log noted: while no log has changed since, it answers all, and
    -- spares the scores, which are dear to read.
    local noted = call('HGET', KEYS[1] .. ':n', KEYS[ceiling_count])
    if noted then
      time = call('TIME')
      now = time[1] * 1000000 + time[2]
      local newest, entries, oldest, last_entries, last_oldest = struct.unpack(note_format, noted)
      local valid = newest <= now
      for _, log in ipairs(logs) do
        if not log.is_first then entries, oldest = last_entries, last_oldest end
        valid = valid and entries == log.entries and entries <= log.limit
          and oldest > now - log.window
      end
      if valid then return {ARGV[first_request], now, noted} end
    end
  end

  local plain = call('EXISTS', KEYS[first_companion], KEYS[#KEYS]) == 0
  if plain and not room then
    -- Somewhere it is full: what has expired goes, everywhere, and all numbers are exact.
    if not time then
      time = call('TIME')
      now = time[1] * 1000000 + time[2]
    end
    room = true
    for _, log in ipairs(logs) do
      log.cutoff, log.expired = now - log.window, 0
      if log.entries > 1000 then
        log.expired = call('ZCOUNT', log.key, '-inf', string.format('%d', log.cutoff))
        if log.expired > 1000 then
          plain = false
        elseif log.expired > 0 then
          call('ZREMRANGEBYRANK', log.key, '0', string.format('%d', log.expired - 1))
        end
      elseif log.entries > 0 then
        log.expired = call('ZREMRANGEBYSCORE', log.key, '-inf', string.format('%d', log.cutoff))
      end
      log.entries = log.entries - log.expired
      if log.entries > log.limit or log.entries == 0 then plain = false end
      room = room and log.entries < log.limit
    end
  end
  if plain and room then
    for _, log in ipairs(logs) do
      -- one expiry tells of all logs of its window
      local told = not log.is_last and log.window == ARGV[first_request - 1]
      plain = plain and log.entries > 0
        and (told or call('PTTL', log.key) * 64000 >= log.window * 65 + 64000)
    end
    if plain then
      time = time or call('TIME')
      local id, micros, new, fills = ARGV[first_request], time[2], true, false
      if #micros < 6 then micros = string.sub('00000', #micros) .. micros end
      local stamp = time[1] .. micros
      for _, log in ipairs(logs) do
        if log.is_first then
          new = call('ZADD', log.key, 'NX', stamp, id) == 1
        elseif new then
          call('ZADD', log.key, stamp, id)
        end
      end
      if new then
        local reply = {id, stamp, nil, nil}
        for _, log in ipairs(logs) do
          reply[2 + log.number] = log.entries
          fills = fills or log.entries + 1 == log.limit
        end
        if fills then
          local note, longest = struct.pack('<d', stamp), 0
          for _, log in ipairs(logs) do
            local oldest = call('ZRANGE', log.key, '0', '0', 'WITHSCORES')[2]
            note = note .. struct.pack('<dd', log.entries + 1, oldest)
            longest = math.max(longest, log.window)
          end
          call('HSET', KEYS[1] .. ':n', KEYS[ceiling_count], note)
          call('PEXPIRE', KEYS[1] .. ':n', string.format('%d', longest / 1000 + 1))
        end
        return reply
      end
    end
  elseif plain then
    for _, log in ipairs(logs) do
      log.room_after, log.newest = 0, -1
      if log.entries == log.limit then
        log.room_after = call('ZRANGE', log.key, '0', '0', 'WITHSCORES')[2] + log.window - now
        if log.room_after <= 0 then plain = false end
      end
      if log.entries > 0 then
        log.newest = call('ZRANGE', log.key, '-1', '-1', 'WITHSCORES')[2] + 0
      end
      if log.newest > now then plain = false end
    end
    if plain then
      local reply = {ARGV[first_request], now, nil, nil, nil, nil, nil, nil, nil}
      for _, log in ipairs(logs) do
        reply[log.slot], reply[log.slot + 1] = log.entries, log.newest
      end
      reply[#reply + 1] = 0
      for _, log in ipairs(logs) do
        reply[#reply + 1] = log.room_after
      end
      return reply
    end
  end
end
