-- Time in milliseconds: the server's clock, or a test clock.

-- Number as text with all digits; the default conversion rounds to 14 digits.
local function whole(number)
  return string.format('%.0f', number)
end

-- An empty text selects the server's clock; a text of digits is the time itself. Three numbers select the slowed-down
-- server's clock: its offset, the start of the slow-down, and its factor.
local function read_clock(text)
  if text:find('^%d+$') then
    return tonumber(text)
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local offset, since, factor = text:match('^([+-]%d+) (%d+) (%d+)$')
  if offset then
    now = since + math.floor((now - since) / factor) + offset
  end
  return now
end
