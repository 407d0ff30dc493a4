-- Seen URLs: one value per URL, `c` for claimed or `s` for seen, then until when, a comma, when it was written, a colon,
-- and whose it is. Values of before lack the comma and what follows up to the colon.

local now = read_clock(ARGV[1])
local call = ARGV[2]
-- Keys outlast what they say by this much, where a test moves the clock.
local spare = tonumber(ARGV[3])
-- What lasts longer than this lasts for ever, as far as the server is concerned.
local EVER = 1e13

-- Whether this is a value of ours, in the form of this version or an earlier one.
local function is_readable(value)
  return type(value) == 'string' and (value:find('^[cs]%d+:') or value:find('^[cs]%d+,%d+:'))
end

-- A value that another program has spoilt is of the kind `u`; it concerns its own URL alone.
local function known(key)
  local value = redis.pcall('GET', key)
  if not value then
    return nil
  end
  if not is_readable(value) then
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

local function keep(key, kind, owner, time)
  if time <= 0 then
    redis.call('DEL', key)
    return
  end
  local value = kind .. whole(now + time) .. ',' .. whole(now) .. ':' .. owner
  if time > EVER then
    redis.call('SET', key, value)
  else
    redis.call('SET', key, value, 'PX', whole(time + spare))
  end
end

-- What a spoilt value is answered as: until its time to live is over, which it is given where it has none.
local function unreadable(key, term)
  local left = redis.call('PTTL', key)
  if left < 0 then
    left = term
    redis.call('PEXPIRE', key, whole(term))
  end
  return 'u' .. whole(now + left) .. ':'
end

local calls = {}

-- Answers each claim with nothing, or with the value that is in its way. A mark of the claim's greatest age is in nobody's.
function calls.claim()
  local term = tonumber(ARGV[4])
  local answers = {}
  for number, key in ipairs(KEYS) do
    local owner, max_age = ARGV[3 + 2 * number], tonumber(ARGV[4 + 2 * number])
    local value, kind, holder, at = known(key)
    -- The age of a spoilt value is unknown, so that it is in the way of all but who heeds no mark.
    local outdated = kind == 's' and now - at >= max_age or kind == 'u' and max_age <= 0
    if kind == 'u' and not outdated then
      answers[number] = unreadable(key, term)
    elseif value and not outdated and (kind == 's' or holder ~= owner) then
      answers[number] = value
    else
      keep(key, 'c', owner, term)
      answers[number] = ''
    end
  end
  return answers
end

function calls.mark()
  for number, key in ipairs(KEYS) do
    keep(key, 's', ARGV[2 + 2 * number], tonumber(ARGV[3 + 2 * number]))
  end
  return #KEYS
end

function calls.release()
  for number, key in ipairs(KEYS) do
    local value, kind, holder = known(key)
    if value and kind == 'c' and holder == ARGV[3 + number] then
      redis.call('DEL', key)
    end
  end
  return #KEYS
end

-- Says of each whether it is known.
function calls.known()
  local answers = {}
  for number, key in ipairs(KEYS) do
    answers[number] = known(key) and 1 or 0
  end
  return answers
end

-- Says how many were known.
function calls.forget()
  local count = 0
  for _, key in ipairs(KEYS) do
    if known(key) then
      count = count + 1
    end
    redis.call('DEL', key)
  end
  return count
end

return calls[call]()
