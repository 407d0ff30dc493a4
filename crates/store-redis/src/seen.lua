-- Seen-URL store: one value per URL: `c` for claimed or `s` for seen, the time of expiry, a comma, the time of the write, a
-- colon, and the owner. Values of earlier versions lack the comma and the time of the write.

local now = read_clock(ARGV[1])
local command = ARGV[2]
-- Added to the TTL of keys, for test clocks.
local ttl_margin = tonumber(ARGV[3])
-- Maximum TTL in milliseconds; a longer one is stored as no TTL.
local MAX_TTL = 1e13

-- Whether a value has the format of this version or an earlier one.
local function is_valid(value)
  return type(value) == 'string' and (value:find('^[cs]%d+:') or value:find('^[cs]%d+,%d+:'))
end

-- Value, kind, owner and time of the write of a key; nil if it is missing or expired. An invalid value, written by another
-- program, has the kind `u` and affects its own URL only.
local function read(key)
  local value = redis.pcall('GET', key)
  if not value then
    return nil
  end
  if not is_valid(value) then
    return '', 'u', ''
  end
  local colon = value:find(':', 2, true)
  local times = value:sub(2, colon - 1)
  local comma = times:find(',', 1, true)
  if tonumber(comma and times:sub(1, comma - 1) or times) <= now then
    return nil
  end
  local at = comma and tonumber(times:sub(comma + 1)) or now
  return value, value:sub(1, 1), value:sub(colon + 1), at
end

local function write(key, kind, owner, ttl)
  if ttl <= 0 then
    redis.call('DEL', key)
    return
  end
  local value = kind .. whole(now + ttl) .. ',' .. whole(now) .. ':' .. owner
  if ttl > MAX_TTL then
    redis.call('SET', key, value)
  else
    redis.call('SET', key, value, 'PX', whole(ttl + ttl_margin))
  end
end

-- Answer for an invalid value, which lasts until the TTL of its key. A key without a TTL gets one.
local function invalid(key, ttl)
  local left = redis.call('PTTL', key)
  if left < 0 then
    left = ttl
    redis.call('PEXPIRE', key, whole(ttl))
  end
  return 'u' .. whole(now + left) .. ':'
end

local commands = {}

-- Answers each claim with an empty text if it is granted, otherwise with the conflicting value. A mark of the maximum age
-- or older is ignored.
function commands.claim()
  local ttl = tonumber(ARGV[4])
  local answers = {}
  for number, key in ipairs(KEYS) do
    local owner, max_age = ARGV[3 + 2 * number], tonumber(ARGV[4 + 2 * number])
    local value, kind, holder, at = read(key)
    -- The age of an invalid value is unknown, so that only a claim that ignores every mark replaces it.
    local outdated = kind == 's' and now - at >= max_age or kind == 'u' and max_age <= 0
    if kind == 'u' and not outdated then
      answers[number] = invalid(key, ttl)
    elseif value and not outdated and (kind == 's' or holder ~= owner) then
      answers[number] = value
    else
      write(key, 'c', owner, ttl)
      answers[number] = ''
    end
  end
  return answers
end

function commands.mark()
  for number, key in ipairs(KEYS) do
    write(key, 's', ARGV[2 + 2 * number], tonumber(ARGV[3 + 2 * number]))
  end
  return #KEYS
end

function commands.release()
  for number, key in ipairs(KEYS) do
    local value, kind, holder = read(key)
    if value and kind == 'c' and holder == ARGV[3 + number] then
      redis.call('DEL', key)
    end
  end
  return #KEYS
end

-- Whether each URL is seen or claimed.
function commands.contains()
  local answers = {}
  for number, key in ipairs(KEYS) do
    answers[number] = read(key) and 1 or 0
  end
  return answers
end

-- Returns how many were seen or claimed.
function commands.forget()
  local count = 0
  for _, key in ipairs(KEYS) do
    if read(key) then
      count = count + 1
    end
    redis.call('DEL', key)
  end
  return count
end

return commands[command]()
